#include "eigenformer/train/adam.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "support/bag.hpp"
#include "support/error.hpp"

using namespace eigenformer;
using test::Bag;
using test::error_of;

// One step with zero moments moves every weight by the rate, against the sign of its gradient.
TEST(Adam, TheFirstStepIsTheRate) {
  Bag model({1, 2}, {3});
  Adam<Bag> adam(model);
  adam.step({}, {.learning_rate = 0.1}, model, Bag({5, -0.01f}, {100}));
  const std::vector<double> want{0.9, 2.1, 2.9};
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(model.numbers()[i], want[i], 1e-6);
  EXPECT_NEAR(adam.first_moment.numbers()[0], 0.5, 1e-6) << "(1 − 0.9)·5";
  EXPECT_NEAR(adam.second_moment.numbers()[0], 0.5, 1e-6) << "(1 − 0.98)·25";
}

TEST(Adam, OnlyMatricesDecay) {
  Bag model({1, 2}, {3});
  Adam<Bag>(model, {.decay = 0.5}).step({}, {.learning_rate = 0.1}, model, Bag({0, 0}, {0}));
  EXPECT_NEAR(model.numbers()[0], 0.95, 1e-6);
  EXPECT_NEAR(model.numbers()[1], 1.9, 1e-6);
  EXPECT_EQ(model.numbers()[2], 3);
}

TEST(Adam, ScalesTheGradientFirst) {
  Bag model({0}, {});
  Adam<Bag>(model, {.epsilon = 1}).step({}, {.learning_rate = 1, .gradient_scale = 0.25}, model, Bag({8}, {}));
  EXPECT_NEAR(model.numbers()[0], -2.0 / 3, 1e-6) << "−g/(|g| + ε) of g = 2";
}

TEST(Adam, RefusesWhatIsInvalidAndChangesNothing) {
  Bag model({1, 2}, {3});
  Adam<Bag> adam(model);
  const Bag gradient({1, 1}, {1}), other({1}, {1});
  EXPECT_EQ(error_of([&] { adam.step({}, {.number = 0, .learning_rate = 0.1}, model, gradient); }),
            "[adam] steps count from 1, not 0");
  EXPECT_EQ(error_of([&] { Adam<Bag>(model, {.beta1 = 1}); }), "[adam] beta1 1 is invalid: must be in [0, 1)");
  EXPECT_EQ(error_of([&] { adam.step({}, {.learning_rate = 0.1}, model, other); }),
            "[matrix] the models differ in shape: (1, 2) and others");
  EXPECT_EQ(model.numbers(), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(adam.first_moment.numbers(), (std::vector<float>{0, 0, 0}));
}
