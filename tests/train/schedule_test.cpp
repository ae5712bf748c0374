#include "eigenformer/train/schedule.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "support/error.hpp"

using namespace eigenformer;
using test::error_of;

TEST(WarmUp, ThePapersSchedule) {
  const WarmUp rate{.width = 512, .warm_up = 4000};
  EXPECT_NEAR(rate(1), 1.74692811e-7, 1e-15);
  EXPECT_NEAR(rate(2), 3.49385621e-7, 1e-15);
  EXPECT_NEAR(rate(4000), 6.98771243e-4, 1e-12);
  EXPECT_NEAR(rate(16000), 3.49385621e-4, 1e-12);
}

TEST(WarmUp, PeaksAtTheEndOfTheWarmUp) {
  const WarmUp rate{.width = 64, .warm_up = 100};
  for (Index step = 1; step < 100; ++step) EXPECT_LT(rate(step), rate(step + 1));
  for (Index step = 100; step < 300; ++step) EXPECT_GT(rate(step), rate(step + 1));
  EXPECT_NEAR(rate(100), 1.0 / 8 / 10, 1e-15);
}

TEST(WarmUp, NoneAtAll) {
  const WarmUp rate{.width = 4, .warm_up = 0, .factor = 3};
  EXPECT_EQ(rate(1), 1.5);
  EXPECT_EQ(rate(4), 0.75);
}

TEST(WarmUp, StepsCountFromOne) {
  EXPECT_EQ(error_of([] { WarmUp{.width = 8}(0); }), "[warm_up] steps count from 1, not 0");
  EXPECT_EQ(error_of([] { ConstantRate{}(0); }), "[constant_rate] steps count from 1, not 0");
  EXPECT_EQ(error_of([] { LinearDecay{.steps = 5}(0); }), "[linear_decay] steps count from 1, not 0");
  EXPECT_EQ(error_of([] { CosineDecay{.steps = 5}(0); }), "[cosine_decay] steps count from 1, not 0");
}

TEST(WarmUp, NeedsAWidth) {
  EXPECT_EQ(error_of([] { WarmUp{}(1); }), "[warm_up] width 0 is invalid: must be in 1…2147483647");
}

TEST(ConstantRate, IsConstant) {
  EXPECT_EQ(ConstantRate{0.25}(1), 0.25);
  EXPECT_EQ(ConstantRate{0.25}(1000), 0.25);
}

namespace {

/// What a schedule gives at these steps.
void expect_rates(const auto& schedule, const std::vector<std::pair<Index, double>>& rates) {
  for (const auto& [step, rate] : rates) EXPECT_NEAR(schedule(step), rate, 1e-12) << "step " << step;
}

}  // namespace

// A quarter of the rate per step of a warm-up of four.
TEST(ConstantRate, AfterAWarmUp) {
  expect_rates(ConstantRate{.rate = 8, .warm_up = 4}, {{1, 2}, {2, 4}, {3, 6}, {4, 8}, {5, 8}, {1000, 8}});
}

// From 8 at step 4 to 2 at step 12: 0.75 a step.
TEST(LinearDecay, IsAStraightLine) {
  expect_rates(LinearDecay{.rate = 8, .steps = 12, .warm_up = 4, .end = 2},
               {{1, 2}, {4, 8}, {5, 7.25}, {8, 5}, {11, 2.75}, {12, 2}, {13, 2}, {1000, 2}});
  expect_rates(LinearDecay{.rate = 8, .steps = 4}, {{1, 6}, {2, 4}, {3, 2}, {4, 0}, {5, 0}});
}

// A quarter of the way is (1 + √½)/2 of the height: 2 + 6·0.853553… = 7.121320…
TEST(CosineDecay, IsHalfACosine) {
  const double quarter = 5 + 3 * std::sqrt(0.5), rest = 5 - 3 * std::sqrt(0.5);
  expect_rates(CosineDecay{.rate = 8, .steps = 12, .warm_up = 4, .end = 2},
               {{1, 2}, {3, 6}, {4, 8}, {6, quarter}, {8, 5}, {10, rest}, {12, 2}, {13, 2}, {1000, 2}});
  expect_rates(CosineDecay{.rate = 8, .steps = 2}, {{1, 4}, {2, 0}, {3, 0}});
}
