#include "eigenformer/train/clip.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/bag.hpp"

using namespace eigenformer;
using test::Bag;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

double norm(const Bag& gradient) {
  Context ctx;
  return global_norm(ctx, gradient);
}

}  // namespace

TEST(Clip, BringsTheNormDownToTheLimit) {
  const double found = norm(Bag({3}, {4}));
  EXPECT_EQ(found, 5);
  EXPECT_DOUBLE_EQ(3 * clip_factor(found, 1), 0.6);
  EXPECT_DOUBLE_EQ(4 * clip_factor(found, 1), 0.8);
}

TEST(Clip, LeavesWhatIsWithinTheLimit) {
  EXPECT_EQ(clip_factor(0.5, 1), 1);
  EXPECT_EQ(clip_factor(1, 1), 1);
}

TEST(Clip, ZeroStaysZero) {
  EXPECT_EQ(norm(Bag({0, 0}, {0})), 0);
  EXPECT_EQ(clip_factor(0, 1), 1);
}

TEST(Clip, LargeGradientsDoNotOverflow) {
  const double found = norm(Bag({1e20f, 1e20f}, {1e20f, 1e20f}));
  EXPECT_NEAR(found, 2e20, 1e13);
  EXPECT_NEAR(1e20 * clip_factor(found, 1), 0.5, 1e-7);
}

TEST(Clip, ShowsWhatIsNotFinite) {
  EXPECT_FALSE(std::isfinite(norm(Bag({1, infinity}, {0}))));
  EXPECT_FALSE(std::isfinite(norm(Bag({1}, {NAN}))));
}

TEST(Clip, TheNormNeedsNoLastingMemory) {
  Context ctx;
  const float* const before = ctx.output<float>(Shape{1}).data();
  global_norm(ctx, Bag({1, 2}, {3}));
  EXPECT_EQ(ctx.output<float>(Shape{1}).data() - before, 16) << "the next cache line";
}
