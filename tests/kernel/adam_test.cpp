#include "eigenformer/kernel/adam.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "support/guarded.hpp"
#include "support/oracle.hpp"
#include "support/tolerance.hpp"

using namespace eigenformer;
using namespace eigenformer::test;

namespace {

kernel::AdamStep at_step(int step, double decay = 0, double scale = 1) {
  return {.beta1 = 0.9,
          .beta2 = 0.98,
          .epsilon = 1e-9,
          .learning_rate = 0.01,
          .decay = decay,
          .gradient_scale = scale,
          .correction1 = 1 - std::pow(0.9, step),
          .correction2 = 1 - std::pow(0.98, step)};
}

}  // namespace

template <class T>
struct AdamKernel : ::testing::Test {};
using Scalars = ::testing::Types<float, double>;
TYPED_TEST_SUITE(AdamKernel, Scalars);

TYPED_TEST(AdamKernel, FollowsALoopInDouble) {
  using T = TypeParam;
  for (const Index count : {0, 1, 3, 8, 15, 16, 17, 21, 130, 16383, 16384, 16385, 40000})
    for (const Edge edge : {Edge::begin, Edge::end}) {
      SCOPED_TRACE(count);
      const Shape<1> shape{count};
      const Guarded<T, 1> weight(shape, {0, edge}, 1), gradient(shape, {0, edge}), first(shape, {0, edge}),
          second(shape, {0, edge});
      first.fill([] { return 0; });
      second.fill([] { return 0; });
      oracle::Expected<1> w(shape), m(shape), v(shape);
      w.values = weight.values();
      w.magnitude = m.magnitude = v.magnitude = 3;
      constexpr double decay = 0.1, scale = 0.5, rate = 0.01;
      for (int step = 1; step <= 3; ++step) {
        gradient.fill([numbers = Numbers(static_cast<std::uint32_t>(step))]() mutable { return numbers(); });
        kernel::adam_step<T>({}, at_step(step, decay, scale), count, weight.view().data(), gradient.view().data(),
                             first.view().data(), second.view().data());
        for (Index i = 0; i < count; ++i) {
          const double g = scale * static_cast<double>(gradient(i));
          m.values(i) = 0.9 * m.values(i) + 0.1 * g;
          v.values(i) = 0.98 * v.values(i) + 0.02 * g * g;
          const double mean = m.values(i) / (1 - std::pow(0.9, step)),
                       square = v.values(i) / (1 - std::pow(0.98, step));
          w.values(i) += -rate * decay * w.values(i) - rate * mean / (std::sqrt(square) + 1e-9);
        }
        expect_close(weight, w, Tolerance<T>::elementwise);
        expect_close(first, m, Tolerance<T>::elementwise);
        expect_close(second, v, Tolerance<T>::elementwise);
      }
    }
}

// By hand. Step 1: the corrections undo the averages, so w moves by rate·g/(|g| + ε), which is the rate.
// Step 2 with g = −1 after 2: m = 0.9·0.2 − 0.1 = 0.08, m/0.19 = 8/19; v = 0.98·0.08 + 0.02 = 0.0984, v/0.0396 = 82/33.
TYPED_TEST(AdamKernel, TwoStepsByHand) {
  using T = TypeParam;
  T w = 1, g = 2, m = 0, v = 0;
  kernel::adam_step<T>({}, at_step(1), 1, &w, &g, &m, &v);
  EXPECT_NEAR(static_cast<double>(m), 0.2, 1e-7);
  EXPECT_NEAR(static_cast<double>(v), 0.08, 1e-8);
  EXPECT_NEAR(static_cast<double>(w), 0.99, 1e-7);
  g = -1;
  kernel::adam_step<T>({}, at_step(2), 1, &w, &g, &m, &v);
  EXPECT_NEAR(static_cast<double>(m), 0.08, 1e-7);
  EXPECT_NEAR(static_cast<double>(v), 0.0984, 1e-8);
  EXPECT_NEAR(static_cast<double>(w), 0.99 - 0.01 * (8.0 / 19) / std::sqrt(82.0 / 33), 1e-7);
}

// Decay is not part of the gradient: without one, it is all that happens, and the moments stay 0.
TYPED_TEST(AdamKernel, DecayIsDecoupled) {
  using T = TypeParam;
  T w = 2, g = 0, m = 0, v = 0;
  kernel::adam_step<T>({}, at_step(1, 0.1), 1, &w, &g, &m, &v);
  EXPECT_NEAR(static_cast<double>(w), 2 - 0.01 * 0.1 * 2, 1e-6);
  EXPECT_EQ(m, 0);
  EXPECT_EQ(v, 0);
}

TYPED_TEST(AdamKernel, EpsilonIsOutsideTheRoot) {
  using T = TypeParam;
  auto step = at_step(1);
  step.epsilon = 1;
  const Guarded<T, 1> w(Shape{1}), g(Shape{1}), m(Shape{1}), v(Shape{1});
  w(0) = m(0) = v(0) = 0, g(0) = 3;
  kernel::adam_step<T>({}, step, 1, w.view().data(), g.view().data(), m.view().data(), v.view().data());
  EXPECT_NEAR(static_cast<double>(w(0)), -0.01 * 3 / (3 + 1), 1e-8);
}

TYPED_TEST(AdamKernel, SquaredNorm) {
  using T = TypeParam;
  Arena arena;
  for (const Index count : {0, 1, 3, 15, 16, 17, 130, 16383, 16384, 16385, 40000}) {
    const Guarded<T, 1> x(Shape{count}, {}, 1);
    double want = 0;
    for (Index i = 0; i < count; ++i) want += static_cast<double>(x(i)) * static_cast<double>(x(i));
    EXPECT_NEAR(kernel::squared_norm<T>({}, arena, count, x.view().data()), want, 1e-12 * want) << count;
  }
}

TEST(SquaredNorm, IsSummedInDouble) {
  Arena arena;
  const std::vector<float> huge(4, 1e20f), small(1000000, 1e-3f);
  EXPECT_NEAR(std::sqrt(kernel::squared_norm<float>({}, arena, 4, huge.data())), 2e20, 1e14);
  EXPECT_NEAR(kernel::squared_norm<float>({}, arena, 1000000, small.data()), 1, 1e-7) << "rounding of 1e-3f, no more";
}

/// The squared norm, computed so many bytes further down the stack.
template <std::size_t Bytes>
[[gnu::noinline]] double squared_norm_below(Arena& arena, Index count, const float* x) {
  volatile char frame[Bytes] = {};
  const double sum = kernel::squared_norm<float>({}, arena, count, x);
  return frame[0] == 0 ? sum : 0;
}

TEST(SquaredNorm, DoesNotDependOnWhereTheStackLies) {
  Arena arena;
  std::vector<float> x(10000);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i));
  std::vector<double> sums;
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (sums.push_back(squared_norm_below<16 * (I + 1)>(arena, 10000, x.data())), ...);
  }
  (std::make_index_sequence<16>());
  for (const double sum : sums) EXPECT_EQ(sum, sums[0]);
}

TEST(SquaredNorm, ShowsWhatIsNotFinite) {
  Arena arena;
  for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()})
    for (const std::size_t place : {0u, 1u, 15u, 16u, 20u}) {
      std::vector<float> x(21, 1.0f);
      x[place] = bad;
      EXPECT_FALSE(std::isfinite(kernel::squared_norm<float>({}, arena, 21, x.data()))) << bad << " at " << place;
    }
}
