#include "eigenformer/core/tensor.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/error.hpp"
#include "support/sanitizers.hpp"

using namespace eigenformer;
using test::error_of;

namespace {

Tensor<float, 2> sample() {
  Tensor<float, 2> x(Shape{2, 3});
  for (Index i = 0; i < 6; ++i) x.data()[i] = static_cast<float>(i + 1);
  return x;
}

std::vector<float> elements(const Tensor<float, 2>& x) { return {x.data(), x.data() + x.size()}; }

const std::vector<float> one_to_six{1, 2, 3, 4, 5, 6};

}  // namespace

static_assert(std::is_nothrow_move_constructible_v<Tensor<float, 2>>);
static_assert(std::is_nothrow_move_assignable_v<Tensor<float, 2>>);

TEST(Tensor, BeginsAsZeros) {
  const Tensor<float, 2> x(Shape{2, 3});
  EXPECT_EQ(elements(x), std::vector<float>(6, 0));
}

TEST(Tensor, CopiesAreDeep) {
  const auto x = sample();
  auto y = x;
  EXPECT_NE(y.data(), x.data());
  y(0, 0) = 100;
  EXPECT_EQ(elements(x), one_to_six);
  y = x;
  EXPECT_EQ(elements(y), one_to_six);
  EXPECT_NE(y.data(), x.data());
}

TEST(Tensor, AssignsToItself) {
  auto x = sample();
  const auto& same = x;
  x = same;
  EXPECT_EQ(elements(x), one_to_six);
  x = std::move(const_cast<Tensor<float, 2>&>(same));
  EXPECT_EQ(elements(x), one_to_six);
}

TEST(Tensor, AssignmentTakesTheOthersShape) {
  Tensor<float, 2> x(Shape{1, 1});
  x = sample();
  EXPECT_EQ(x.shape(), (Shape{2, 3}));
  EXPECT_EQ(elements(x), one_to_six);
}

TEST(Tensor, MovesWithoutCopying) {
  auto x = sample();
  const float* const data = x.data();
  const auto y = std::move(x);
  EXPECT_EQ(y.data(), data);
  EXPECT_EQ(elements(y), one_to_six);
  EXPECT_EQ(x.data(), nullptr);  // NOLINT: what is left is a tensor that was not given
  EXPECT_EQ(x.size(), 0);
}

TEST(Tensor, CopiesOfNothingAreNothing) {
  const Tensor<float, 2> none;
  const auto copy = none;
  EXPECT_EQ(copy.data(), nullptr);
  EXPECT_FALSE(copy.view());
  EXPECT_FALSE((Tensor<float, 2>(ConstView<float, 2>())));
  EXPECT_TRUE((Tensor<float, 2>(ConstView<float, 2>(nullptr, {0, 0}))));
  EXPECT_TRUE((Tensor<float, 2>(Tensor<float, 2>(Shape{0, 0}))).view());
}

TEST(Tensor, StartsOnACacheLine) {
  std::vector<Tensor<char, 1>> tensors;
  for (Index size = 0; size < 50; ++size) tensors.emplace_back(Shape{size});
  for (const auto& x : tensors) EXPECT_EQ(reinterpret_cast<std::uintptr_t>(x.data()) % 64, 0u);
}

TEST(Tensor, EmptyIsNotNull) {
  const Tensor<float, 2> x(Shape{0, 5}), copy = x;
  EXPECT_TRUE(x.view());
  EXPECT_TRUE(copy.view());
  EXPECT_EQ(copy.shape(), (Shape{0, 5}));
}

TEST(Tensor, RefusesSizesThatOverflow) {
  constexpr int bits = 8 * sizeof(Index);
  for (const auto& shape : {Shape{Index{1} << bits / 2, Index{1} << bits / 2}, Shape{Index{1} << (bits - 3), Index{8}}})
    EXPECT_EQ(error_of([&] { Tensor<float, 2>{shape}; }), "[tensor] too many elements in " + to_string(shape));
  const Shape row{Index{1} << (bits - 2)};
  EXPECT_EQ(error_of([&] { Tensor<float, 1>{row}; }), "[tensor] too many elements in " + to_string(row));
}

TEST(Tensor, WithoutMemoryIsAnError) {
  if (test::memory_is_sanitized || sizeof(Index) < 8)
    GTEST_SKIP() << "needs a large address space, and its own allocator";
  constexpr auto many = static_cast<Index>(std::uint64_t{1} << 45);
  EXPECT_EQ(error_of([] { Tensor<float, 1>(Shape{many}); }), "[memory] there is no memory for 140737488355328 bytes");
  EXPECT_EQ(error_of([] { require_memory("test", many, 4); }), "[memory] there is no memory for 140737488355328 bytes");
  EXPECT_EQ(error_of([] { require_memory("test", many, many); }),
            "[test] there is no memory for 35184372088832 times 35184372088832 bytes");
}

TEST(Tensor, LimitsNest) {
  const auto take = [](Index floats) { Tensor<float, 1>{Shape{floats}}; };
  {
    const MemoryLimit outer(1000);
    take(100);
    {
      const MemoryLimit inner(5000);
      EXPECT_NO_THROW(require_memory("test", 150, 4)) << "which takes nothing";
      EXPECT_EQ(error_of([&] { take(151); }), "[memory] 604 bytes are asked for, but the limit leaves 600");
      take(100);
    }
    EXPECT_NO_THROW(take(150)) << "the inner limit counted for itself";
    EXPECT_EQ(error_of([&] { take(1); }), "[memory] 4 bytes are asked for, but the limit leaves 0");
  }
  EXPECT_NO_THROW(take(10'000));
}

TEST(Tensor, RefusesNegativeExtents) {
  EXPECT_EQ(error_of([] { Tensor<float, 2>(Shape{2, -3}); }), "[tensor] negative extent in (2, -3)");
}

TEST(Tensor, CopiesAViewWithGaps) {
  auto x = sample();
  const Tensor<float, 2> part(ConstView<float, 2>(x.view().slice(1, 1, 2)));
  EXPECT_EQ(elements(part), (std::vector<float>{2, 3, 5, 6}));
}

TEST(Tensor, IsAnEigenMatrix) {
  auto x = sample();
  x.matrix()(1, 2) = 60;
  EXPECT_EQ(x(1, 2), 60);
  const auto& constant = x;
  EXPECT_EQ(constant.matrix().data(), x.data());
}
