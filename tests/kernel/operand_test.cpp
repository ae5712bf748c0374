// Blocks of right operands hold the elements of B, however these lie, and zeros up to whole vectors.
#include "eigenformer/kernel/operand.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "support/guarded.hpp"
#include "support/tolerance.hpp"

using namespace eigenformer;
using namespace eigenformer::test;

template <class T>
struct OperandKernel : ::testing::Test {};
using Scalars = ::testing::Types<float, double>;
TYPED_TEST_SUITE(OperandKernel, Scalars);

namespace {

/// Each block of b, taken in pieces of k, holds scale·element(k, n).
template <class T>
void expect_elements(const kernel::Operand<T>& b, T scale, auto&& element) {
  constexpr Index width = kernel::Tile<T>::width, lanes = kernel::Vec<T>::lanes, depth = 7;
  std::vector<T> scratch(static_cast<std::size_t>(depth * width), T{-1});
  for (Index p = 0; p < b.panels(); ++p)
    for (Index first = 0; first < b.depth; first += depth) {
      const Index count = (std::min)(depth, b.depth - first);
      const auto block = b.block(p, first, count, b.is_packed() ? nullptr : scratch.data());
      for (Index k = 0; k < count; ++k)
        for (Index j = 0; j < (b.column_count(p) + lanes - 1) / lanes * lanes; ++j)
          ASSERT_EQ(block.data[k * block.stride + j],
                    j < b.column_count(p) ? scale * element(first + k, p * width + j) : 0)
              << "row " << first + k << ", column " << j << " of panel " << p;
    }
}

}  // namespace

TYPED_TEST(OperandKernel, BlocksHoldTheElements) {
  using T = TypeParam;
  using kernel::Operand;
  for_sizes([](Index, Index columns, Index depth) {
    for_layouts([&](Layout layout) {
      const Guarded<T, 2> b(Shape{depth, columns}, layout, 1), w(Shape{columns, depth}, layout, 2);
      const Guarded<T, 1> memory(Shape{Operand<T>::size(depth, columns)});
      const auto by_row = [&](Index k, Index n) { return b(k, n); };
      const auto by_column = [&](Index k, Index n) { return w(n, k); };
      expect_elements<T>(Operand<T>::rows(b), 1, by_row);
      expect_elements<T>(Operand<T>::transposed(w), 1, by_column);
      for (const T scale : {T{1}, T{0.75}}) {
        expect_elements<T>(kernel::pack({}, Operand<T>::rows(b), memory.view().data(), scale), scale, by_row);
        expect_elements<T>(kernel::pack({}, Operand<T>::transposed(w), memory.view().data(), scale), scale, by_column);
      }
    });
  });
}

// Rows that are further apart than a panel is wide, and panels that overlap in them, as cached values lie.
TYPED_TEST(OperandKernel, PackedMayHaveAnyStrides) {
  using T = TypeParam;
  constexpr Index width = kernel::Tile<T>::width, columns = 2 * width + kernel::Vec<T>::lanes;
  const Guarded<T, 2> b(Shape{Index{5}, columns}, {3}, 1);
  const auto operand = kernel::Operand<T>::packed(b.view().data(), 5, columns, width, b.view().stride(0));
  EXPECT_EQ(operand.panels(), 3);
  expect_elements<T>(operand, 1, [&](Index k, Index n) { return b(k, n); });
}
