#include "eigenformer/kernel/activation.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <utility>

#include "eigenformer/core/arena.hpp"
#include "eigenformer/kernel/gemm.hpp"
#include "support/guarded.hpp"
#include "support/oracle.hpp"
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
    for (const auto& [in, out] : {std::pair<T, T>{infinity, infinity},
                                  {-infinity, T{0}},
                                  {T{0}, T{0}},
                                  {T(-0.0), T{0}},
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

// Applied at the end of a product: the same as product, bias and activation one after the other.
TYPED_TEST(ActivationKernel, AtTheEndOfAProduct) {
  using T = TypeParam;
  for (const Index out : sizes)
    for (const bool with_bias : {false, true})
      for_layouts([&](Layout layout) {
        const Guarded<T, 2> x(Shape{7, 21}, layout, 1), w(Shape{out, Index{21}}, layout, 2), y(Shape{Index{7}, out}, layout),
            kept(Shape{Index{7}, out}, layout), alone(Shape{Index{7}, out}, layout);
        const Guarded<T, 1> bias(Shape{out}, layout, 3);
        Arena arena;
        const T* const added = with_bias ? bias.view().data() : nullptr;
        kernel::linear_forward_then<T>({}, arena, x, w, {}, y, kernel::ActivatedBias<Relu, T>{added, kept});
        kernel::linear_forward_then<T>({}, arena, x, w, {}, alone, kernel::ActivatedBias<Relu, T>{added});
        expect_close(kept, oracle::linear(x.values(), w.values(), with_bias ? bias.values() : oracle::Array<1>()), Tolerance<T>::product);
        for (Index i = 0; i < 7; ++i)
          for (Index j = 0; j < out; ++j) {
            ASSERT_EQ(y(i, j), kept(i, j) > 0 ? kept(i, j) : T{0});
            ASSERT_EQ(alone(i, j), y(i, j));
          }
      });
}
