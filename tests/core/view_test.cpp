#include "eigenformer/core/view.hpp"

#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <span>
#include <type_traits>
#include <vector>

#include "support/error.hpp"

using namespace eigenformer;
using test::error_of;

namespace {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// 0, 1, 2, …
std::vector<int> counting(int count) {
  std::vector<int> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

}  // namespace

static_assert(std::is_trivially_copyable_v<View<float, 3>>);
static_assert(std::is_convertible_v<View<float, 2>, View<const float, 2>>);
static_assert(!std::is_convertible_v<View<const float, 2>, View<float, 2>>);
static_assert(!std::is_constructible_v<View<float, 1>, const std::vector<float>&>);
static_assert(!std::is_constructible_v<View<const float, 1>, std::vector<double>&>);
static_assert(!std::is_constructible_v<View<float, 2>, const Matrix&>);
static_assert(!std::is_constructible_v<View<const float, 2>, Eigen::MatrixXf&>, "column-major");
static_assert(!std::is_constructible_v<View<const double, 2>, Matrix&>);

TEST(View, AbsentIsNotEmpty) {
  const View<int, 2> absent;
  EXPECT_FALSE(absent.given());
  EXPECT_FALSE(absent);
  EXPECT_EQ(absent.size(), 0);
  EXPECT_FALSE((View<const int, 2>(absent)));
  EXPECT_FALSE(absent.flat());
  EXPECT_FALSE(absent.reshape(Shape{0, 3, 4}));
  EXPECT_FALSE(absent.slice(0, 0, 0));

  int one = 1;
  EXPECT_TRUE((View<int, 2>(&one, Shape<2>{0, 5})));
  int* const nowhere = nullptr;  // the address of an empty std::vector
  for (const auto& shape : {Shape{0, 0}, Shape{0, 5}, Shape{5, 0}}) {
    const View<int, 2> empty(nowhere, shape);
    EXPECT_TRUE(empty.given());
    EXPECT_TRUE((View<int, 2>(nowhere, shape, {5, 1})));
    EXPECT_TRUE((View<const int, 2>(empty)));
    EXPECT_TRUE(empty.flat());
    EXPECT_TRUE(empty.reshape(Shape{0, 3, 4}));
    EXPECT_TRUE(empty.slice(0, 0, 0));
  }
  EXPECT_TRUE((View<int, 2>(nowhere, {0, 6}).split_last(3)));
  EXPECT_TRUE((View<int, 1>(std::vector<int>())));
  EXPECT_TRUE((ConstView<int, 1>(std::span<const int>())));
  EXPECT_TRUE((View<float, 2>(Matrix())));
}

TEST(View, IsRowMajor) {
  auto numbers = counting(24);
  const View<int, 3> x(numbers.data(), {2, 3, 4});
  EXPECT_EQ(x.stride(0), 12);
  EXPECT_EQ(x.stride(1), 4);
  EXPECT_EQ(x.stride(2), 1);
  EXPECT_EQ(x(1, 2, 3), 23);
  EXPECT_EQ(x(1, 0, 2), 14);
  EXPECT_EQ(x[1][2][0], 20);
  EXPECT_TRUE(x.contiguous());
  EXPECT_EQ(x.row_stride(), 4);
}

TEST(View, SlicesAnyAxis) {
  auto numbers = counting(24);
  const View<int, 3> x(numbers.data(), {2, 3, 4});
  const auto last = x.slice(2, 1, 2);
  EXPECT_EQ(last.shape(), (Shape{2, 3, 2}));
  EXPECT_EQ(last(1, 2, 1), x(1, 2, 2));
  EXPECT_FALSE(last.contiguous());
  EXPECT_EQ(last.row_stride(), 4) << "the rows stay equally far apart";
  const auto middle = x.slice(1, 1, 2);
  EXPECT_EQ(middle(1, 0, 0), x(1, 1, 0));
  EXPECT_EQ(middle.row_stride(), -1) << "a gap after every second row";
  const auto first = x.slice(0, 1, 1);
  EXPECT_EQ(first(0, 0, 0), 12);
  EXPECT_TRUE(first.contiguous());
  EXPECT_EQ(x.slice(0, 2, 0).size(), 0);
}

TEST(View, FlattensRowsWithEqualGaps) {
  auto numbers = counting(48);
  const auto x = View<int, 3>(numbers.data(), {2, 3, 8}).slice(2, 2, 5);
  const auto rows = x.flat();
  EXPECT_EQ(rows.shape(), (Shape{6, 5}));
  for (Index i = 0; i < 6; ++i)
    for (Index j = 0; j < 5; ++j) EXPECT_EQ(rows(i, j), 8 * i + j + 2);
  EXPECT_EQ(rows.row(4), &x(1, 1, 0));
}

TEST(View, DoesNotFlattenUnequalGaps) {
  auto numbers = counting(24);
  const auto x = View<int, 3>(numbers.data(), {2, 3, 4}).slice(1, 0, 2);
  EXPECT_EQ(error_of([&] { x.flat(); }), "[view] the leading axes of (2, 2, 4) do not flatten to rows: they have gaps");
  EXPECT_EQ(x[1].flat()(1, 3), 19) << "one slice of it does";
}

TEST(View, StridesOfAxesOfOneDoNotMatter) {
  auto numbers = counting(24);
  const View<int, 4> x(numbers.data(), {1, 6, 1, 4}, {999, 4, 777, 1});
  EXPECT_TRUE(x.contiguous());
  EXPECT_EQ(x.row_stride(), 4);
  EXPECT_EQ(x.flat()(5, 3), 23);
  const View<int, 3> one(numbers.data(), {1, 1, 4}, {-5, -7, 1});
  EXPECT_TRUE(one.contiguous());
  EXPECT_EQ(one.row_stride(), 4);
}

TEST(View, EmptyAxes) {
  int one = 1;
  const View<int, 3> none(&one, {2, 0, 4}), narrow(&one, {2, 3, 0});
  EXPECT_TRUE(none.contiguous());
  EXPECT_TRUE(narrow.contiguous());
  EXPECT_EQ(none.flat().shape(), (Shape{0, 4}));
  EXPECT_EQ(narrow.flat().shape(), (Shape{6, 0}));
  EXPECT_EQ(none.matrix().rows(), 0);
  EXPECT_EQ(none.matrix().cols(), 4);
  EXPECT_EQ(none.reshape(Shape{0, 9}).shape(), (Shape{0, 9}));
  const View<int, 3> gaps(&one, {2, 0, 4}, {100, 7, 1});
  EXPECT_TRUE(gaps.contiguous());
  EXPECT_EQ(gaps.flat().shape(), (Shape{0, 4}));
}

TEST(View, StrideZeroRepeats) {
  auto numbers = counting(4);
  const View<int, 3> x(numbers.data(), {5, 3, 4}, {0, 0, 1});
  EXPECT_EQ(x(4, 2, 3), 3);
  EXPECT_FALSE(x.contiguous());
  EXPECT_EQ(x.row_stride(), 0);
  EXPECT_EQ(x.flat()(14, 1), 1);
  auto matrix = counting(12);
  const View<int, 3> outer(matrix.data(), {5, 3, 4}, {0, 4, 1});
  EXPECT_EQ(outer(4, 2, 3), 11);
  EXPECT_EQ(outer.row_stride(), -1) << "(3, 4) repeated is not rows of one distance";
}

TEST(View, SplitsTheLastAxis) {
  auto numbers = counting(48);
  const auto x = View<int, 2>(numbers.data(), {4, 12}).slice(1, 3, 6);  // (4, 6), gaps
  const auto heads = x.split_last(3);
  EXPECT_EQ(heads.shape(), (Shape{4, 2, 3}));
  for (Index n = 0; n < 4; ++n)
    for (Index h = 0; h < 2; ++h)
      for (Index e = 0; e < 3; ++e) EXPECT_EQ(&heads(n, h, e), &x(n, 3 * h + e));
  EXPECT_EQ(error_of([&] { x.split_last(4); }), "[view] 4 does not divide the last axis of (4, 6)");
  EXPECT_EQ(error_of([&] { x.split_last(0); }), "[view] 0 does not divide the last axis of (4, 6)");
}

TEST(View, Reshapes) {
  auto numbers = counting(24);
  const View<int, 2> x(numbers.data(), {4, 6});
  EXPECT_EQ(x.reshape(Shape{2, 3, 4})(1, 2, 3), 23);
  EXPECT_EQ(x.reshape(Shape{24})[7], 7);
  EXPECT_EQ(error_of([&] { x.reshape(Shape{5, 5}); }), "[view] cannot reshape (4, 6) to (5, 5)");
  EXPECT_EQ(error_of([&] { x.slice(1, 0, 3).reshape(Shape{12}); }), "[view] cannot reshape (4, 3) to (12)");
}

TEST(View, OfStandardContainers) {
  std::vector<float> vector{1, 2, 3};
  const std::vector<float> constant{4, 5};
  std::array<float, 2> array{6, 7};
  const View<float, 1> of_vector = vector;
  EXPECT_EQ(of_vector.data(), vector.data());
  EXPECT_EQ(of_vector.shape(), Shape{3});
  of_vector[1] = 9;
  EXPECT_EQ(vector[1], 9);
  EXPECT_EQ((ConstView<float, 1>(constant).data()), constant.data());
  EXPECT_EQ((View<float, 1>(array).size()), 2);
  EXPECT_EQ((ConstView<float, 1>(std::span(vector).subspan(1))[0]), 9);
}

TEST(View, OfEigenMatricesWithoutACopy) {
  Matrix matrix(3, 4);
  matrix << 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11;
  const View<float, 2> x = matrix;
  EXPECT_EQ(x.data(), matrix.data());
  EXPECT_EQ(x.shape(), (Shape{3, 4}));
  x(1, 2) = 60;
  EXPECT_EQ(matrix(1, 2), 60);
  const Matrix& constant = matrix;
  EXPECT_EQ((ConstView<float, 2>(constant)(2, 3)), 11);
  const View<float, 2> block = matrix.block(1, 1, 2, 2);
  EXPECT_EQ(&block(1, 1), &matrix(2, 2));
  Eigen::Map<Matrix, 0, Eigen::OuterStride<>> map(matrix.data(), 2, 3, Eigen::OuterStride<>(8));
  EXPECT_EQ((&View<float, 2>(map)(1, 2)), &matrix(2, 2));
  Eigen::Ref<Matrix> reference = matrix;
  EXPECT_EQ((View<float, 2>(reference).data()), matrix.data());
  const Eigen::Matrix<float, 2, 2, Eigen::RowMajor> fixed{{1, 2}, {3, 4}};
  EXPECT_EQ((ConstView<float, 2>(fixed)(1, 0)), 3);
}

TEST(View, AsAnEigenMatrixWithoutACopy) {
  std::vector<float> numbers(24);
  std::iota(numbers.begin(), numbers.end(), 0.0f);
  const auto x = View<float, 3>(numbers.data(), {2, 3, 4}).slice(2, 1, 3);
  auto matrix = x.matrix();
  EXPECT_EQ(matrix.rows(), 6);
  EXPECT_EQ(matrix.cols(), 3);
  EXPECT_EQ(matrix(5, 2), 23);
  matrix.setZero();
  EXPECT_EQ(numbers[5], 0);
  EXPECT_EQ(numbers[4], 4) << "outside the slice";
}
