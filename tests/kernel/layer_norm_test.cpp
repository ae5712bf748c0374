#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "eigenformer/kernel/norm.hpp"
#include "support/guarded.hpp"
#include "support/oracle.hpp"
#include "support/tolerance.hpp"

using namespace eigenformer;
using namespace eigenformer::test;

namespace {

constexpr double epsilon = 1e-5;

template <class T>
std::vector<double> normalized(const std::vector<T>& row) {
  const auto width = static_cast<Index>(row.size());
  const Guarded<T, 2> x(Shape{1, width}), y(Shape{1, width});
  const Guarded<kernel::RowStatistics<T>, 1> statistics(Shape{1});
  auto next = row.begin();
  x.fill([&] { return *next++; });
  kernel::norm_forward<kernel::NormKind::layer, T>({}, {x}, {{}, {}}, epsilon, y, statistics);
  const auto values = y.values();
  return {values.data(), values.data() + width};
}

}  // namespace

template <class T>
struct LayerNormKernel : ::testing::Test {};
using Scalars = ::testing::Types<float, double>;
TYPED_TEST_SUITE(LayerNormKernel, Scalars);

TYPED_TEST(LayerNormKernel, ForwardAndBackward) {
  using T = TypeParam;
  for (const Index rows : {1, 3, 17, 130})
    for (const Index width : sizes) {
      SCOPED_TRACE(to_string(Shape{rows, width}));
      for_layouts([&](Layout layout) {
        for (const bool add : {false, true}) {
          const Guarded<T, 2> x(Shape{rows, width}, layout, 1), dy(Shape{rows, width}, layout, 2),
              y(Shape{rows, width}, layout), dx(Shape{rows, width}, layout);
          const Guarded<T, 1> weight(Shape{width}, layout, 3), bias(Shape{width}, layout, 4),
              dweight(Shape{width}, layout), dbias(Shape{width}, layout);
          const Guarded<kernel::RowStatistics<T>, 1> statistics(Shape{rows}, layout);
          auto want = oracle::layer_norm(x.values(), weight.values(), bias.values(), epsilon, dy.values());

          kernel::norm_forward<kernel::NormKind::layer, T>({}, {x}, {weight, bias}, epsilon, y, statistics);
          // A row of one differs from its mean by nothing: only the bias is left, exactly.
          expect_close(y, want.y, width == 1 ? 0 : Tolerance<T>::norm);

          const auto x_place = prepared(dx, add);
          const auto weight_place = prepared(dweight, add), bias_place = prepared(dbias, !add);
          if (add) want.dx.add(dx.values()), want.dweight.add(dweight.values());
          else want.dbias.add(dbias.values());
          Arena arena;
          kernel::norm_backward<kernel::NormKind::layer, T>({}, arena, x, {weight}, statistics, dy, x_place,
                                                            weight_place, bias_place);
          expect_close(dx, want.dx, Tolerance<T>::norm * std::sqrt(static_cast<double>(width)));
          expect_close(dweight, want.dweight, Tolerance<T>::norm);
          expect_close(dbias, want.dbias, Tolerance<T>::norm);
        }
      });
      if (this->HasFailure()) return;
    }
}

TYPED_TEST(LayerNormKernel, WithoutWeightOrBias) {
  using T = TypeParam;
  const Guarded<T, 2> x(Shape{3, 21}, {3}, 1), dy(Shape{3, 21}, {3}, 2), y(Shape{3, 21}, {3}), dx(Shape{3, 21}, {3});
  const Guarded<kernel::RowStatistics<T>, 1> statistics(Shape{3});
  Tensor<double, 1> ones(Shape{21}), zeros(Shape{21});
  std::fill_n(ones.data(), 21, 1.0);
  const auto want = oracle::layer_norm(x.values(), ones, zeros, epsilon, dy.values());
  kernel::norm_forward<kernel::NormKind::layer, T>({}, {x}, {{}, {}}, epsilon, y, statistics);
  expect_close(y, want.y, Tolerance<T>::norm);
  Arena arena;
  kernel::norm_backward<kernel::NormKind::layer, T>({}, arena, x, {{}}, statistics, dy, {dx, false}, {}, {});
  expect_close(dx, want.dx, Tolerance<T>::norm * 5);
}

TYPED_TEST(LayerNormKernel, OnlyTheWeightsDerivative) {
  using T = TypeParam;
  const Guarded<T, 2> x(Shape{3, 21}, {3}, 1), dy(Shape{3, 21}, {3}, 2), y(Shape{3, 21}, {3});
  const Guarded<T, 1> weight(Shape{21}, {}, 3), bias(Shape{21}, {}, 4), dweight(Shape{21});
  const Guarded<kernel::RowStatistics<T>, 1> statistics(Shape{3});
  const auto want = oracle::layer_norm(x.values(), weight.values(), bias.values(), epsilon, dy.values());
  kernel::norm_forward<kernel::NormKind::layer, T>({}, {x}, {weight, bias}, epsilon, y, statistics);
  Arena arena;
  kernel::norm_backward<kernel::NormKind::layer, T>({}, arena, x, {weight}, statistics, dy, {}, {dweight, false}, {});
  expect_close(dweight, want.dweight, Tolerance<T>::norm);
}

TYPED_TEST(LayerNormKernel, EmptyAxes) {
  using T = TypeParam;
  Arena arena;
  {
    const Guarded<T, 2> none(Shape{0, 5}), dnone(Shape{0, 5});
    const Guarded<T, 1> weight(Shape{5}, {}, 1), dweight(Shape{5}), dbias(Shape{5}, {}, 9);
    const Guarded<kernel::RowStatistics<T>, 1> statistics(Shape{0});
    const auto before = dbias.values();
    kernel::norm_forward<kernel::NormKind::layer, T>({}, {none}, {weight, weight}, epsilon, none, statistics);
    kernel::norm_backward<kernel::NormKind::layer, T>({}, arena, none, {weight}, statistics, none, {dnone, false},
                                                      {dweight, false}, {dbias, true});
    for (Index j = 0; j < 5; ++j) {
      EXPECT_EQ(dweight(j), 0) << "a sum over nothing";
      EXPECT_EQ(dbias(j), static_cast<T>(before(j)));
    }
  }
  const Guarded<T, 2> narrow(Shape{3, 0}), dnarrow(Shape{3, 0});
  const Guarded<T, 1> nothing(Shape{0}), dnothing(Shape{0});
  const Guarded<kernel::RowStatistics<T>, 1> statistics(Shape{3});
  kernel::norm_forward<kernel::NormKind::layer, T>({}, {narrow}, {nothing, nothing}, epsilon, narrow, statistics);
  kernel::norm_backward<kernel::NormKind::layer, T>({}, arena, narrow, {nothing}, statistics, narrow, {dnarrow, false},
                                                    {dnothing, false}, {dnothing, false});
}

// Mean far above the spread: E[x²] − E[x]² has no correct digit left.
TEST(LayerNormKernel, LargeMean) {
  const auto y = normalized<float>({40000, 40001, 40002, 40003});
  EXPECT_NEAR(y[0], -1.34163542, 1e-6);
  EXPECT_NEAR(y[1], -0.44721181, 1e-6);
  EXPECT_NEAR(y[2], 0.44721181, 1e-6);
  EXPECT_NEAR(y[3], 1.34163542, 1e-6);
}

TEST(LayerNormKernel, AConstantRowIsItsBias) {
  const Guarded<float, 2> x(Shape{1, 256}), y(Shape{1, 256});
  const Guarded<float, 1> weight(Shape{256}, {}, 1), bias(Shape{256}, {}, 2);
  const Guarded<kernel::RowStatistics<float>, 1> statistics(Shape{1});
  x.fill([] { return 1234.0f; });
  kernel::norm_forward<kernel::NormKind::layer, float>({}, {x}, {weight, bias}, epsilon, y, statistics);
  for (Index j = 0; j < 256; ++j) EXPECT_EQ(y(0, j), bias(j));
}

TEST(LayerNormKernel, LargeMeanTinySpread) {
  std::vector<float> row(16);
  for (int i = 0; i < 16; ++i) row[static_cast<std::size_t>(i)] = 10000.0f + static_cast<float>(i * 1e-3);
  const auto y = normalized(row);
  EXPECT_NEAR(y.front(), -1.331333, 2e-6);
  EXPECT_NEAR(y.back(), 1.331333, 2e-6);
}

TEST(LayerNormKernel, EpsilonIsInsideTheRoot) {
  std::vector<float> row(16);
  for (int i = 0; i < 16; ++i) row[static_cast<std::size_t>(i)] = static_cast<float>(i * 1e-3);
  EXPECT_NEAR(normalized(row)[0], -1.3416408, 1e-6);
}

TEST(LayerNormKernel, TextbookRow) {
  const auto y = normalized<double>({2, -1, 0, 3});  // mean 1, variance 10/4
  const double root = std::sqrt(2.5 + epsilon);
  const double want[] = {1 / root, -2 / root, -1 / root, 2 / root};
  for (std::size_t j = 0; j < 4; ++j) EXPECT_NEAR(y[j], want[j], 1e-14);
}
