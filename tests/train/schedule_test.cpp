#include "eigenformer/train/schedule.hpp"

#include <gtest/gtest.h>

#include <cmath>

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
  EXPECT_EQ(error_of([] { WarmUp{}(0); }), "[warm_up] steps count from 1, not 0");
  EXPECT_EQ(error_of([] { WarmUp{.width = 0}(1); }), "[warm_up] width 0 and warm-up 4000 make no schedule");
  EXPECT_EQ(error_of([] { WarmUp{.warm_up = -5}(1); }), "[warm_up] width 512 and warm-up -5 make no schedule");
}

TEST(ConstantRate, IsConstant) {
  EXPECT_EQ(ConstantRate{0.25}(1), 0.25);
  EXPECT_EQ(ConstantRate{0.25}(1000), 0.25);
}
