#include "eigenformer/core/shape.hpp"

#include <gtest/gtest.h>

#include <type_traits>

using namespace eigenformer;

TEST(Shape, CountsElementsRowsAndWidth) {
  constexpr Shape shape{2, 3, 4};
  static_assert(std::is_same_v<decltype(shape), const Shape<3>>);
  static_assert(shape.size() == 24 && shape.rows() == 6 && shape.width() == 4);
  static_assert(Shape{7}.size() == 7 && Shape{7}.rows() == 1 && Shape{7}.width() == 7);
}

TEST(Shape, AnEmptyAxisLeavesTheOthers) {
  constexpr Shape shape{5, 0, 4};
  static_assert(shape.size() == 0 && shape.rows() == 0 && shape.width() == 4);
  static_assert(Shape{5, 0}.rows() == 5 && Shape{5, 0}.size() == 0);
}

TEST(Shape, ComparesAllExtents) {
  EXPECT_EQ((Shape{2, 3}), (Shape{2, 3}));
  EXPECT_NE((Shape{2, 3}), (Shape{3, 2}));
}

TEST(Shape, WithAnotherWidth) { EXPECT_EQ((Shape{2, 3, 4}.with_width(9)), (Shape{2, 3, 9})); }

TEST(Shape, ReadsLikeATuple) {
  EXPECT_EQ(to_string(Shape{2, 3, 4}), "(2, 3, 4)");
  EXPECT_EQ(to_string(Shape{0}), "(0)");
}
