#include "eigenformer/train/sgd.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "support/bag.hpp"
#include "support/error.hpp"

using namespace eigenformer;
using test::Bag;
using test::error_of;

// All numbers below are multiples of powers of two: exact by hand.
TEST(Sgd, WithoutMomentumItIsTheGradient) {
  Bag model({1, 2}, {3});
  Sgd<Bag> sgd(model);
  for (Index step = 1; step <= 2; ++step)
    sgd.step({}, {.number = step, .learning_rate = 0.5}, model, Bag({1, -2}, {4}));
  EXPECT_EQ(model.numbers(), (std::vector<float>{0, 4, -1}));
}

// v: 1, 0.5·1 + 2 = 2.5, 0.5·2.5 − 1 = 0.25; the weight goes down by a quarter of each.
TEST(Sgd, TheVelocityIsADecayingSumOfGradients) {
  Bag model({1}, {});
  Sgd<Bag> sgd(model, {.momentum = 0.5});
  const std::vector<float> gradients{1, 2, -1}, velocities{1, 2.5f, 0.25f}, weights{0.75f, 0.125f, 0.0625f};
  for (std::size_t i = 0; i < 3; ++i) {
    sgd.step({}, {.number = static_cast<Index>(i) + 1, .learning_rate = 0.25}, model, Bag({gradients[i]}, {}));
    EXPECT_EQ(sgd.velocity.numbers()[0], velocities[i]) << i;
    EXPECT_EQ(model.numbers()[0], weights[i]) << i;
  }
}

// Of v as above: g + 0.5·v is 1.5, 3.25, −0.875.
TEST(Sgd, NesterovLooksAhead) {
  Bag model({1}, {});
  Sgd<Bag> sgd(model, {.momentum = 0.5, .nesterov = true});
  const std::vector<float> gradients{1, 2, -1}, weights{0.625f, -0.1875f, 0.03125f};
  for (std::size_t i = 0; i < 3; ++i) {
    sgd.step({}, {.number = static_cast<Index>(i) + 1, .learning_rate = 0.25}, model, Bag({gradients[i]}, {}));
    EXPECT_EQ(model.numbers()[0], weights[i]) << i;
  }
}

// The matrix's gradient becomes 0.25·8 + 0.5·2 = 3, the vector's 2.
TEST(Sgd, ScalesTheGradientAndDecaysMatricesThroughIt) {
  Bag model({2}, {2});
  Sgd<Bag> sgd(model, {.momentum = 0.5, .decay = 0.5});
  sgd.step({}, {.learning_rate = 0.5, .gradient_scale = 0.25}, model, Bag({8}, {8}));
  EXPECT_EQ(sgd.velocity.numbers(), (std::vector<float>{3, 2}));
  EXPECT_EQ(model.numbers(), (std::vector<float>{0.5f, 1}));
}

TEST(Sgd, RefusesWhatIsInvalidAndChangesNothing) {
  Bag model({1, 2}, {3});
  Sgd<Bag> sgd(model);
  EXPECT_EQ(error_of([&] { sgd.step({}, {.number = 0}, model, Bag({1, 1}, {1})); }), "[sgd] steps count from 1, not 0");
  EXPECT_EQ(error_of([&] { Sgd<Bag>(model, {.momentum = 1}); }), "[sgd] momentum 1 is invalid: must be in [0, 1)");
  EXPECT_EQ(error_of([&] { sgd.step({}, {.learning_rate = 1}, model, Bag({1}, {1})); }),
            "[matrix] the models differ in shape: (1, 2) and others");
  EXPECT_EQ(model.numbers(), (std::vector<float>{1, 2, 3}));
}
