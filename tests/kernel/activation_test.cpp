#include "eigenformer/kernel/activation.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <utility>

#include "support/guarded.hpp"
#include "support/tolerance.hpp"

using namespace eigenformer;
using namespace eigenformer::test;

template <class T>
struct ActivationKernel : ::testing::Test {};
using Scalars = ::testing::Types<float, double>;
TYPED_TEST_SUITE(ActivationKernel, Scalars);

TYPED_TEST(ActivationKernel, Relu) {
  using T = TypeParam;
  for (const Index rows : {1, 3, 17})
    for (const Index width : sizes)
      for_layouts([&](Layout layout) {
        const Guarded<T, 2> x(Shape{rows, width}, layout, 1), dy(Shape{rows, width}, layout, 2), y(Shape{rows, width}, layout),
            dx(Shape{rows, width}, layout), added(Shape{rows, width}, layout);
        x(rows - 1, width / 2) = 0;
        kernel::activation_forward<Relu, T>({}, x, y);
        kernel::activation_backward<Relu, T>({}, x, dy, {dx, false});
        const auto place = prepared(added, true);
        const auto before = added.values();
        kernel::activation_backward<Relu, T>({}, x, dy, place);
        for (Index i = 0; i < rows; ++i)
          for (Index j = 0; j < width; ++j) {
            ASSERT_EQ(y(i, j), x(i, j) > 0 ? x(i, j) : T{0});
            const T slope = x(i, j) > 0 ? dy(i, j) : T{0};
            ASSERT_EQ(dx(i, j), slope);
            ASSERT_EQ(added(i, j), static_cast<T>(before(i, j)) + slope);
          }
      });
}

TYPED_TEST(ActivationKernel, ReluAtTheEdges) {
  using T = TypeParam;
  constexpr T infinity = std::numeric_limits<T>::infinity();
  for (const Index width : {1, 17}) {
    const Guarded<T, 2> x(Shape{1, width}), y(Shape{1, width});
    for (const auto& [in, out] : {std::pair<T, T>{infinity, infinity}, {-infinity, T{0}}, {T{0}, T{0}}, {T(-0.0), T{0}},
                                  {std::numeric_limits<T>::denorm_min(), std::numeric_limits<T>::denorm_min()}}) {
      x.fill([value = in] { return value; });
      kernel::activation_forward<Relu, T>({}, x, y);
      for (Index j = 0; j < width; ++j) EXPECT_EQ(y(0, j), out);
    }
  }
}

TYPED_TEST(ActivationKernel, EmptyAxes) {
  using T = TypeParam;
  for (const auto shape : {Shape<2>{0, 5}, Shape<2>{5, 0}}) {
    const Guarded<T, 2> x(shape), y(shape);
    kernel::activation_forward<Relu, T>({}, x, y);
    kernel::activation_backward<Relu, T>({}, x, x, {y, false});
  }
}
