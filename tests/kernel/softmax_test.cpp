#include "eigenformer/kernel/softmax.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>

#include "support/guarded.hpp"
#include "support/oracle.hpp"
#include "support/tolerance.hpp"

using namespace eigenformer;
using namespace eigenformer::test;

template <class T>
struct SoftmaxKernel : ::testing::Test {};
using Scalars = ::testing::Types<float, double>;
TYPED_TEST_SUITE(SoftmaxKernel, Scalars);

TYPED_TEST(SoftmaxKernel, ForwardAndBackward) {
  using T = TypeParam;
  for (const Index rows : {1, 3, 17})
    for (const Index width : sizes) {
      SCOPED_TRACE(to_string(Shape{rows, width}));
      for_layouts([&](Layout layout) {
        for (const bool add : {false, true}) {
          const Guarded<T, 2> x(Shape{rows, width}, layout), dy(Shape{rows, width}, layout, 2),
              y(Shape{rows, width}, layout), log_y(Shape{rows, width}, layout), dx(Shape{rows, width}, layout),
              log_dx(Shape{rows, width}, layout);
          x.fill([numbers = Numbers(1)]() mutable { return 10 * numbers(); });
          const auto p = oracle::softmax(x.values());
          oracle::Expected<2> want(p.shape()), log_want(p.shape());
          want.values = p;
          for (Index i = 0; i < p.size(); ++i) log_want.values.data()[i] = std::log(p.data()[i]);
          want.magnitude = 10;  // of what is exponentiated
          log_want.measure();
          log_want.magnitude += 10;
          kernel::softmax_forward<T>({}, x, y);
          expect_close(y, want, Tolerance<T>::softmax);
          kernel::log_softmax_forward<T>({}, x, log_y);
          expect_close(log_y, log_want, Tolerance<T>::softmax);

          const auto place = prepared(dx, add), log_place = prepared(log_dx, add);
          auto slope = oracle::softmax_backward(x.values(), dy.values(), false),
               log_slope = oracle::softmax_backward(x.values(), dy.values(), true);
          if (add) slope.add(dx.values()), log_slope.add(log_dx.values());
          kernel::softmax_backward<T>({}, y, dy, place);
          expect_close(dx, slope, 10 * Tolerance<T>::softmax);
          kernel::log_softmax_backward<T>({}, log_y, dy, log_place);
          expect_close(log_dx, log_slope, 10 * Tolerance<T>::softmax);
        }
      });
      if (this->HasFailure()) return;
    }
}

TYPED_TEST(SoftmaxKernel, FarApartLogits) {
  using T = TypeParam;
  const Guarded<T, 2> x(Shape{1, 5}), y(Shape{1, 5});
  const T logits[] = {T(-249.87), T(-424.13), T(-460.29), T(378.10), T(-292.61)};
  x.fill([next = logits]() mutable { return *next++; });
  kernel::softmax_forward<T>({}, x, y);
  for (Index j = 0; j < 5; ++j)
    EXPECT_NEAR(static_cast<double>(y(0, j)), j == 3 ? 1 : 0, 1e-200) << "nothing added against zeros";
}

// exp(−∞) must be 0 exactly, in every lane and in the tail.
TYPED_TEST(SoftmaxKernel, MaskedLogitsAreExactlyZero) {
  using T = TypeParam;
  constexpr T infinity = std::numeric_limits<T>::infinity();
  for (const Index width : sizes)
    for (Index open = 0; open < width; ++open) {
      const Guarded<T, 2> x(Shape{1, width}), y(Shape{1, width}), log_y(Shape{1, width});
      x.fill([] { return -infinity; });
      x(0, open) = T(-300);
      kernel::softmax_forward<T>({}, x, y);
      kernel::log_softmax_forward<T>({}, x, log_y);
      for (Index j = 0; j < width; ++j) {
        ASSERT_EQ(y(0, j), j == open ? T{1} : T{0}) << j << " of " << width;
        ASSERT_EQ(log_y(0, j), j == open ? T{0} : -infinity) << j << " of " << width;
      }
    }
}

TYPED_TEST(SoftmaxKernel, OverwhelmedLogitsUnderflowQuietly) {
  using T = TypeParam;
  for (const double x : {-88.0, -88.03, -89.0, -104.0, -1000.0, -1e30}) {
    const Guarded<T, 2> in(Shape{1, 17}), out(Shape{1, 17});
    in.fill([&] { return x; });
    in(0, 7) = 0;
    kernel::softmax_forward<T>({}, in, out);
    for (Index j = 0; j < 17; ++j)
      EXPECT_NEAR(static_cast<double>(out(0, j)), j == 7 ? 1 : std::exp(x), j == 7 ? 1e-30 : 1e-5 * std::exp(x) + 2e-38)
          << x;
  }
}

TYPED_TEST(SoftmaxKernel, EmptyAxes) {
  using T = TypeParam;
  for (const auto& [rows, width] : {std::pair<Index, Index>{10, 0}, {0, 10}, {0, 0}}) {
    const Guarded<T, 2> x(Shape{rows, width}), y(Shape{rows, width}), dx(Shape{rows, width});
    kernel::softmax_forward<T>({}, x, y);
    kernel::log_softmax_forward<T>({}, x, y);
    kernel::softmax_backward<T>({}, y, x, {dx, false});
    kernel::log_softmax_backward<T>({}, y, x, {dx, true});
  }
}
