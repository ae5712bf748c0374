#include "eigenformer/core/arena.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <new>
#include <vector>

#define EIGENFORMER_COUNT_ALLOCATIONS
#include "support/allocations.hpp"

using namespace eigenformer;
using test::allocations;

namespace {

/// A round of pieces that no one block of the first size holds.
std::vector<char*> round_of_pieces(Arena& arena) {
  std::vector<char*> pieces;
  for (const Index bytes : {1000, 60000, 1, 200000, 64, 65, 1000000, 30}) pieces.push_back(arena.allocate<char>(bytes));
  return pieces;
}

}  // namespace

TEST(Arena, StartsOnCacheLines) {
  Arena arena;
  for (const char* piece : round_of_pieces(arena)) EXPECT_EQ(reinterpret_cast<std::uintptr_t>(piece) % 64, 0u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(arena.allocate<double>(Shape{3, 5}).data()) % 64, 0u);
}

TEST(Arena, PiecesDoNotOverlap) {
  Arena arena;
  std::vector<View<char, 1>> pieces;
  for (Index size = 0; size < 300; ++size) {
    pieces.push_back(arena.allocate<char>(Shape{40 * size}));
    std::fill_n(pieces.back().data(), pieces.back().size(), static_cast<char>(size % 100));
  }
  for (Index size = 0; size < 300; ++size)
    for (Index i = 0; i < 40 * size; ++i) ASSERT_EQ(pieces[static_cast<std::size_t>(size)][i], size % 100);
}

TEST(Arena, EmptyIsNotNull) {
  Arena arena;
  EXPECT_TRUE(arena.allocate<float>(Shape{3, 0}));
  EXPECT_NE(arena.allocate<float>(0), nullptr);
}

TEST(Arena, RewindReleasesWhatCameAfterTheMark) {
  Arena arena;
  int* const kept = arena.allocate<int>(10);
  kept[9] = 7;
  const auto mark = arena.mark();
  int* const first = arena.allocate<int>(100);
  round_of_pieces(arena);
  arena.rewind(mark);
  EXPECT_EQ(arena.allocate<int>(100), first);
  EXPECT_EQ(kept[9], 7);
}

TEST(Arena, AScopeThatAResetCameBeforeReleasesNothing) {
  Arena arena;
  round_of_pieces(arena);
  int* kept = nullptr;
  {
    const auto scratch = arena.scratch();
    round_of_pieces(arena);
    arena.reset();
    kept = arena.allocate<int>(1000000);
    kept[999999] = 7;
  }
  int* const next = arena.allocate<int>(1000000);
  next[0] = 8;
  EXPECT_TRUE(next >= kept + 1000000 || next + 1000000 <= kept);
  EXPECT_EQ(kept[999999], 7);
  EXPECT_FALSE(arena.released(kept));
  arena.rewind({7, 7});  // further than anything reaches
  EXPECT_EQ(next[0], 8);
  arena.reset();
  EXPECT_TRUE(arena.released(arena.allocate<int>(1) + 16));
}

TEST(Arena, ResetMakesOneBlockAndThenNothingIsAllocated) {
  Arena arena;
  round_of_pieces(arena);
  const std::size_t grown = allocations;
  EXPECT_GT(grown, 1u);
  arena.reset();
  const auto capacity = arena.capacity();
  EXPECT_GE(capacity, 1261000u);
  for (int round = 0; round < 3; ++round) {
    std::vector<char*> pieces;
    pieces.reserve(8);
    const std::size_t before = allocations;
    for (const Index bytes : {1000, 60000, 1, 200000, 64, 65, 1000000, 30})
      pieces.push_back(arena.allocate<char>(bytes));
    EXPECT_EQ(allocations, before) << "round " << round;
    for (std::size_t i = 1; i < pieces.size(); ++i) EXPECT_GT(pieces[i], pieces[i - 1]) << "one block";
    arena.reset();
    EXPECT_EQ(allocations, before) << "reset of round " << round;
  }
  EXPECT_EQ(arena.capacity(), capacity);
}

TEST(Arena, CountsWhatItAsksFor) {
  const std::size_t before = allocations;
  Arena arena;
  arena.allocate<char>(1);
  EXPECT_GE(allocations, before + 1) << "the counter works";
}

TEST(Arena, NewMemoryIsNaNInDebugBuilds) {
#ifdef NDEBUG
  GTEST_SKIP() << "built without assertions";
#else
  Arena arena;
  for (int round = 0; round < 2; ++round) {
    const auto x = arena.allocate<float>(Shape{100});
    for (Index i = 0; i < 100; ++i) EXPECT_TRUE(std::isnan(x[i]));
    std::fill_n(x.data(), 100, 1.0f);
    arena.reset();
  }
#endif
}

#ifdef EIGENFORMER_ADDRESS_SANITIZER
TEST(ArenaDeathTest, AStaleViewIsFound) {
  Arena arena;
  const auto x = arena.allocate<float>(Shape{100});
  x[5] = 1;
  arena.reset();
  EXPECT_DEATH(x[5] = 2, "use-after-poison");
}
#endif
