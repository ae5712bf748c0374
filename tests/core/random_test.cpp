#include "eigenformer/core/random.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <vector>

using namespace eigenformer;

// The published vectors of Random123 (tests/kat_vectors): counter, key, result.
static_assert(philox({0, 0, 0, 0}, 0) == PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
static_assert(philox({~0u, ~0u, ~0u, ~0u}, ~std::uint64_t{0}) ==
              PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
static_assert(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0x299f31d0'a4093822) ==
              PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});

TEST(Philox, KnownAnswersAtRunTime) {
  volatile std::uint32_t word = 0x243f6a88;
  EXPECT_EQ(philox({word, 0x85a308d3, 0x13198a2e, 0x03707344}, 0x299f31d0'a4093822),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomSite, EveryCoordinateCounts) {
  std::set<PhiloxBlock> blocks;
  for (const std::uint64_t seed : {1u, 2u})
    for (const std::uint32_t step : {1u, 2u}) {
      Random random{.seed = seed};
      random.start(step);
      for (int use = 0; use < 2; ++use) {
        const RandomSite site(random);
        for (const Index row : {0, 1})
          for (const Index block : {0, 1}) blocks.insert(site.block(row, block));
      }
    }
  EXPECT_EQ(blocks.size(), 32u);
}

TEST(RandomSite, AStepBeginsAnew) {
  Random random{.seed = 5};
  random.start(3);
  const auto first = RandomSite(random).block(0, 0);
  EXPECT_NE(RandomSite(random).block(0, 0), first);
  random.start(3);
  EXPECT_EQ(RandomSite(random).block(0, 0), first);
}

TEST(RandomSequence, SeedAndStreamMakeTheNumbers) {
  RandomSequence a(1, 2), same(1, 2), other_stream(1, 3), other_seed(2, 2);
  const double first = a.uniform();
  EXPECT_EQ(first, same.uniform());
  EXPECT_NE(first, other_stream.uniform());
  EXPECT_NE(first, other_seed.uniform());
  EXPECT_NE(first, a.uniform());
}

// Bounds of five standard deviations of the estimate.
TEST(RandomSequence, UniformMoments) {
  constexpr int count = 100000;
  RandomSequence random(7);
  double sum = 0, squares = 0, least = 1, largest = 0;
  for (int i = 0; i < count; ++i) {
    const double x = random.uniform();
    sum += x, squares += x * x;
    least = std::min(least, x), largest = std::max(largest, x);
  }
  EXPECT_NEAR(sum / count, 0.5, 5 * std::sqrt(1.0 / 12 / count));
  EXPECT_NEAR(squares / count, 1.0 / 3, 5 * std::sqrt(4.0 / 45 / count));
  EXPECT_GE(least, 0);
  EXPECT_LT(least, 1e-3);
  EXPECT_LT(largest, 1);
  EXPECT_GT(largest, 1 - 1e-3);
}

TEST(RandomSequence, NormalMoments) {
  constexpr int count = 100000;
  RandomSequence random(8);
  double moments[4] = {};
  for (int i = 0; i < count; ++i) {
    const double x = random.normal();
    ASSERT_TRUE(std::isfinite(x));
    double power = 1;
    for (double& moment : moments) moment += (power *= x) / count;
  }
  const double root = std::sqrt(count);
  EXPECT_NEAR(moments[0], 0, 5 * 1 / root);
  EXPECT_NEAR(moments[1], 1, 5 * std::sqrt(2) / root);
  EXPECT_NEAR(moments[2], 0, 5 * std::sqrt(15) / root);
  EXPECT_NEAR(moments[3], 3, 5 * std::sqrt(96) / root);
}

TEST(RandomSequence, BelowReachesEveryNumberEquallyOften) {
  constexpr Index n = 7;
  std::vector<int> counts(n);
  RandomSequence random(9);
  for (int i = 0; i < 70000; ++i) {
    const Index x = random.below(n);
    ASSERT_GE(x, 0);
    ASSERT_LT(x, n);
    ++counts[static_cast<std::size_t>(x)];
  }
  for (const int count : counts) EXPECT_NEAR(count, 10000, 5 * std::sqrt(10000.0 * 6 / 7));
  EXPECT_EQ(random.below(1), 0);
}
