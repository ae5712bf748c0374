#include "eigenformer/kernel/activation.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <type_traits>
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
        const Guarded<T, 2> x(Shape{rows, width}, layout, 1), dy(Shape{rows, width}, layout, 2),
            y(Shape{rows, width}, layout), dx(Shape{rows, width}, layout), added(Shape{rows, width}, layout);
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

namespace {

template <class Activation, class T>
void expect_activation(double (*exact)(double), double bound) {
  for (double at = -14; at < 14; at += 0.0371) {
    const Guarded<T, 2> x(Shape{1, 5}), dy(Shape{1, 5}), y(Shape{1, 5}), dx(Shape{1, 5});
    x.fill([&] { return static_cast<T>(at); });
    dy.fill([] { return 1; });
    kernel::activation_forward<Activation, T>({}, x, y);
    kernel::activation_backward<Activation, T>({}, x, dy, {dx, false});
    const double in = static_cast<double>(x(0, 0)), h = 1e-4;
    const double slope = (exact(in - 2 * h) - 8 * exact(in - h) + 8 * exact(in + h) - exact(in + 2 * h)) / (12 * h);
    for (Index j = 0; j < 5; ++j) {
      ASSERT_NEAR(y(0, j), exact(in), bound * (1 + std::abs(exact(in)))) << at;
      ASSERT_NEAR(dx(0, j), slope, bound * (1 + std::abs(slope)) + 1e-9) << at;
    }
  }
}

double gelu_of(double x) { return x / 2 * std::erfc(-x / std::numbers::sqrt2); }
double gelu_tanh_of(double x) {
  return x / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

}  // namespace

TYPED_TEST(ActivationKernel, AgainstTheirFormulas) {
  using T = TypeParam;
  const double bound = std::is_same_v<T, float> ? 5e-7 : 1e-14;
  expect_activation<Gelu, T>(gelu_of, bound);
  expect_activation<GeluTanh, T>(gelu_tanh_of, bound);
  expect_activation<GeluSigmoid, T>([](double x) { return x / (1 + std::exp(-1.702 * x)); }, bound);
  expect_activation<Silu, T>([](double x) { return x / (1 + std::exp(-x)); }, bound);
  expect_activation<Sigmoid, T>([](double x) { return 1 / (1 + std::exp(-x)); }, bound);
  expect_activation<Tanh, T>([](double x) { return std::tanh(x); }, bound);
  expect_activation<SquaredRelu, T>([](double x) { return x > 0 ? x * x : 0; }, bound);
  expect_activation<Identity, T>([](double x) { return x; }, bound);
}

// erf-GELU and tanh-GELU differ by up to 4.7e-4; published values of both.
TYPED_TEST(ActivationKernel, GeluValues) {
  using T = TypeParam;
  const double at[] = {-3, -1, 1, 2, 3}, erf[] = {-0.00404969, -0.15865525, 0.84134475, 1.95449974, 2.99595031},
               tanh[] = {-0.00363739, -0.15880801, 0.84119199, 1.95459769, 2.99636261};
  const Guarded<T, 2> x(Shape{1, 5}), y(Shape{1, 5});
  for (Index i = 0; i < 5; ++i) x(0, i) = static_cast<T>(at[i]);
  kernel::activation_forward<Gelu, T>({}, x, y);
  for (Index i = 0; i < 5; ++i) EXPECT_NEAR(y(0, i), erf[i], 3e-7);
  kernel::activation_forward<GeluTanh, T>({}, x, y);
  for (Index i = 0; i < 5; ++i) EXPECT_NEAR(y(0, i), tanh[i], 3e-7);
}

// In every lane and in the tail.
TYPED_TEST(ActivationKernel, FarFromZero) {
  using T = TypeParam;
  constexpr T infinity = std::numeric_limits<T>::infinity();
  for (const Index width : {1, 17}) {
    const Guarded<T, 2> x(Shape{1, width}), y(Shape{1, width}), slope(Shape{1, width}), one(Shape{1, width});
    one.fill([] { return 1; });
    const auto check = [&](auto activation, double in, double value, double rise, double bound) {
      using Activation = decltype(activation);
      x.fill([=] { return in; });
      kernel::activation_forward<Activation, T>({}, x, y);
      kernel::activation_backward<Activation, T>({}, x, one, {slope, false});
      for (Index j = 0; j < width; ++j) {
        EXPECT_EQ(std::signbit(y(0, j)), std::signbit(static_cast<T>(value))) << in;
        if (std::isinf(value)) EXPECT_EQ(y(0, j), value);
        else EXPECT_NEAR(y(0, j), value, bound) << in;
        EXPECT_NEAR(slope(0, j), rise, std::max(bound, 1e-25)) << in;
      }
    };
    for (const double x0 : {-1000.0, -104.0, -89.0, -static_cast<double>(infinity)}) {
      check(Silu(), x0, -0.0, 0, 2e-35);
      check(Gelu(), x0, -0.0, 0, 1e-37);
      check(GeluTanh(), x0, -0.0, 0, 1e-37);
      check(GeluSigmoid(), x0, -0.0, 0, 2e-35);
    }
    for (const double x0 : {1000.0, 91.39, 3212.5, static_cast<double>(infinity)}) {
      check(Silu(), x0, x0, 1, 1e-3);
      check(Gelu(), x0, x0, 1, 1e-3);
      check(GeluTanh(), x0, x0, 1, 1e-3);
      check(GeluSigmoid(), x0, x0, 1, 1e-3);
    }
    x.fill([] { return NAN; });
    kernel::activation_forward<Gelu, T>({}, x, y);
    EXPECT_TRUE(std::isnan(y(0, width - 1)));
    kernel::activation_forward<Silu, T>({}, x, y);
    EXPECT_TRUE(std::isnan(y(0, width - 1)));
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
        const Guarded<T, 2> x(Shape{7, 21}, layout, 1), w(Shape{out, Index{21}}, layout, 2),
            y(Shape{Index{7}, out}, layout), kept(Shape{Index{7}, out}, layout), alone(Shape{Index{7}, out}, layout);
        const Guarded<T, 1> bias(Shape{out}, layout, 3);
        Arena arena;
        const T* const added = with_bias ? bias.view().data() : nullptr;
        kernel::linear_forward_then<T>({}, arena, x, kernel::Operand<T>::transposed(w), y,
                                       kernel::ActivatedBias<Relu, T>{added, kept});
        kernel::linear_forward_then<T>({}, arena, x, kernel::Operand<T>::transposed(w), alone,
                                       kernel::ActivatedBias<Relu, T>{added});
        expect_close(kept, oracle::linear(x.values(), w.values(), with_bias ? bias.values() : oracle::Array<1>()),
                     Tolerance<T>::product);
        for (Index i = 0; i < 7; ++i)
          for (Index j = 0; j < out; ++j) {
            ASSERT_EQ(y(i, j), kept(i, j) > 0 ? kept(i, j) : T{0});
            ASSERT_EQ(alone(i, j), y(i, j));
          }
      });
}
