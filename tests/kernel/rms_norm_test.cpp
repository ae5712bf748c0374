// RMS norm against its formula in double, and norms of residual sums against the two steps one after the other.
#include <gtest/gtest.h>

#include <cmath>

#include "eigenformer/kernel/norm.hpp"
#include "support/guarded.hpp"
#include "support/tolerance.hpp"

using namespace eigenformer;
using namespace eigenformer::test;
using kernel::NormKind;

template <class T>
struct RmsNormKernel : ::testing::Test {};
using Scalars = ::testing::Types<float, double>;
TYPED_TEST_SUITE(RmsNormKernel, Scalars);

// (2, −1, 0, 3): the mean square is 3.5.
TYPED_TEST(RmsNormKernel, ByHand) {
  using T = TypeParam;
  const Guarded<T, 2> x(Shape{1, 4}), y(Shape{1, 4});
  const Guarded<kernel::RowStatistics<T>, 1> statistics(Shape{1});
  x(0, 0) = 2, x(0, 1) = -1, x(0, 2) = 0, x(0, 3) = 3;
  kernel::norm_forward<NormKind::rms, T>({}, {x}, {}, 0, y, statistics);
  const double want[] = {1.0690450, -0.5345225, 0, 1.6035675};
  for (Index j = 0; j < 4; ++j) EXPECT_NEAR(y(0, j), want[j], 1e-6);
}

// 300² is more than a 16-bit float holds, and 4096 ones more than a bfloat16 counts: sums are wider than either.
TYPED_TEST(RmsNormKernel, SumsAreWideEnough) {
  using T = TypeParam;
  const Guarded<T, 2> x(Shape{1, 4}), y(Shape{1, 4}), ones(Shape{1, 4096}), same(Shape{1, 4096});
  const Guarded<kernel::RowStatistics<T>, 1> statistics(Shape{1});
  for (Index j = 0; j < 4; ++j) x(0, j) = static_cast<T>(j % 2 == 0 ? 300 : -300);
  ones.fill([] { return 1; });
  kernel::norm_forward<NormKind::rms, T>({}, {x}, {}, 1e-6, y, statistics);
  kernel::norm_forward<NormKind::rms, T>({}, {ones}, {}, 0, same, statistics);
  for (Index j = 0; j < 4; ++j) EXPECT_NEAR(y(0, j), j % 2 == 0 ? 1 : -1, 1e-6);
  for (Index j = 0; j < 4096; ++j) ASSERT_EQ(same(0, j), 1);
}

TYPED_TEST(RmsNormKernel, ForwardAndBackward) {
  using T = TypeParam;
  constexpr double added = 1e-3;
  for (const Index rows : {1, 3, 150})
    for (const Index width : sizes)
      for_layouts([&](Layout layout) {
        const Shape<2> shape{rows, width};
        const Guarded<T, 2> x(shape, layout, 1), dy(shape, layout, 2), y(shape, layout), dx(shape, layout);
        const Guarded<T, 1> weight(Shape{width}, layout, 3), dweight(Shape{width}, layout);
        const Guarded<kernel::RowStatistics<T>, 1> statistics(Shape{rows}, layout);
        const kernel::Affine<T> affine{.weight = weight, .offset = 1};
        oracle::Expected<2> value(shape), slope(shape);
        oracle::Expected<1> weight_slope(Shape{width});
        for (Index i = 0; i < rows; ++i) {
          double square = added, along = 0;
          for (Index j = 0; j < width; ++j)
            square += static_cast<double>(x(i, j) * x(i, j)) / static_cast<double>(width);
          const double scale = 1 / std::sqrt(square);
          const auto normal = [&](Index j) { return static_cast<double>(x(i, j)) * scale; };
          const auto in = [&](Index j) { return static_cast<double>(dy(i, j)) * (1 + static_cast<double>(weight(j))); };
          for (Index j = 0; j < width; ++j) along += in(j)*normal(j) / static_cast<double>(width);
          for (Index j = 0; j < width; ++j) {
            value.values(i, j) = normal(j) * (1 + static_cast<double>(weight(j)));
            slope.values(i, j) = (in(j)-normal(j) * along) * scale;
            weight_slope.values(j) += static_cast<double>(dy(i, j)) * normal(j);
          }
          slope.magnitude = std::max(slope.magnitude, 4 * scale);
        }
        value.measure();
        weight_slope.magnitude = 2 * static_cast<double>(rows);
        Arena arena;
        kernel::norm_forward<NormKind::rms, T>({}, {x}, affine, added, y, statistics);
        kernel::norm_backward<NormKind::rms, T>({}, arena, x, affine, statistics, dy, {dx, false}, {dweight, false},
                                                {});
        expect_close(y, value, Tolerance<T>::norm);
        expect_close(dx, slope, Tolerance<T>::norm);
        expect_close(dweight, weight_slope, Tolerance<T>::norm);
      });
}

template <NormKind Kind, class T>
void expect_residual_in_one_pass() {
  Random random{.seed = 3};
  const kernel::Dropout dropped{RandomSite(random), 0.4};
  for (const auto& dropout : {kernel::Dropout{}, dropped})
    for (const Index width : sizes)
      for_layouts([&](Layout layout) {
        const Shape<2> shape{5, width};
        const Guarded<T, 2> x(shape, layout, 1), update(shape, layout, 2), sum(shape, layout), y(shape, layout),
            kept(shape, layout), fused(shape, layout), alone(shape, layout);
        const Guarded<T, 1> weight(Shape{width}, layout, 3), bias(Shape{width}, layout, 4);
        const Guarded<kernel::RowStatistics<T>, 1> statistics(Shape{5}, layout);
        kernel::dropout_forward<T>({}, update, x, dropout, sum);
        kernel::norm_forward<Kind, T>({}, {sum}, {weight, bias}, 1e-5, y, statistics);
        kernel::norm_forward<Kind, T>({}, {x, update, dropout}, {weight, bias}, 1e-5, fused, statistics, kept);
        kernel::norm_forward<Kind, T>({}, {x, update, dropout}, {weight, bias}, 1e-5, alone, statistics);
        for (Index i = 0; i < 5; ++i)
          for (Index j = 0; j < width; ++j) {
            ASSERT_EQ(kept(i, j), sum(i, j));
            ASSERT_EQ(fused(i, j), y(i, j));
            ASSERT_EQ(alone(i, j), y(i, j));
          }
      });
}

TYPED_TEST(RmsNormKernel, OfAResidualSum) {
  expect_residual_in_one_pass<NormKind::layer, TypeParam>();
  expect_residual_in_one_pass<NormKind::rms, TypeParam>();
}
