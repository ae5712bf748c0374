// Vector functions in every lane, against the standard library in double.
#include "eigenformer/kernel/simd.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numbers>

#include "support/guarded.hpp"
#include "support/tolerance.hpp"

using namespace eigenformer;
using namespace eigenformer::test;
using kernel::Vec;

namespace {

/// Elements of a vector.
template <class T>
constexpr auto lanes_of = static_cast<std::size_t>(Vec<T>::lanes);

constexpr float boundless = std::numeric_limits<float>::infinity();

/// f of a vector with x in all lanes, which must agree.
template <class F>
float everywhere(float x, F&& f) {
  float values[lanes_of<float>];
  f(Vec<float>(x)).store(values);
  for (const float value : values) EXPECT_EQ(std::bit_cast<std::uint32_t>(value), std::bit_cast<std::uint32_t>(values[0]));
  return values[0];
}

float exp_of(float x) {
  return everywhere(x, [](Vec<float> v) { return kernel::exp(v); });
}
float exp2_of(float x) {
  return everywhere(x, [](Vec<float> v) { return kernel::exp2(v); });
}

/// The error in units of the last place, over numbers of all sizes from `begin` to `end`, both signs.
double worst_error(float begin, float end, float (*f)(float), double (*exact)(double)) {
  double worst = 0;
  const auto last = std::bit_cast<std::uint32_t>(end);
  for (auto bits = std::bit_cast<std::uint32_t>(begin); bits < last; bits += 4099) {
    for (const float x : {std::bit_cast<float>(bits), -std::bit_cast<float>(bits)}) {
      const double want = exact(static_cast<double>(x));
      if (std::abs(want) < 1.1754944e-38 || std::abs(want) > 3.4028235e38) continue;
      const double unit = std::ldexp(1.0, std::ilogb(want) - 23);
      worst = std::max(worst, std::abs(static_cast<double>(f(x)) - want) / unit);
    }
  }
  return worst;
}

}  // namespace

TEST(Simd, ExponentialsWithin1Point3Ulp) {
  EXPECT_LE(worst_error(1e-10f, 88.7f, exp_of, [](double x) { return std::exp(x); }), 1.3);
  EXPECT_LE(worst_error(1e-10f, 127.0f, exp2_of, [](double x) { return std::exp2(x); }), 1.3);
}

TEST(Simd, SigmoidTanhAndErfWithin3Ulp) {
  EXPECT_LE(worst_error(1e-10f, 88.7f, [](float x) { return everywhere(x, [](Vec<float> v) { return kernel::sigmoid(v); }); },
                        [](double x) { return 1 / (1 + std::exp(-x)); }), 3);
  EXPECT_LE(worst_error(1e-10f, 100.0f, [](float x) { return everywhere(x, [](Vec<float> v) { return kernel::tanh(v); }); },
                        [](double x) { return std::tanh(x); }), 3);
  EXPECT_LE(worst_error(1e-10f, 100.0f, [](float x) { return everywhere(x, [](Vec<float> v) { return kernel::erf(v); }); },
                        [](double x) { return std::erf(x); }), 2.5);
}

TEST(Simd, NormalDistribution) {
  for (float x = -12.9f; x < 9; x += 0.0037f) {
    const double at = static_cast<double>(x), bound = at * at * 0x1p-24;
    const double density = everywhere(x, [](Vec<float> v) { return kernel::normal(v).density; });
    const double integral = everywhere(x, [](Vec<float> v) { return kernel::normal(v).integral; });
    const double want = std::exp(-at * at / 2) / std::sqrt(2 * std::numbers::pi), total = std::erfc(-at / std::numbers::sqrt2) / 2;
    ASSERT_NEAR(density, want, want * (2e-7 + bound) + 1e-37) << x;
    ASSERT_NEAR(integral, total, total * (4e-7 + bound) + 1e-37) << x;
  }
}

TEST(Simd, SigmoidTanhAndErfAtTheEdges) {
  const auto sigmoid = [](float x) { return everywhere(x, [](Vec<float> v) { return kernel::sigmoid(v); }); };
  const auto tanh = [](float x) { return everywhere(x, [](Vec<float> v) { return kernel::tanh(v); }); };
  const auto erf = [](float x) { return everywhere(x, [](Vec<float> v) { return kernel::erf(v); }); };
  for (const float x : {-1000.0f, -104.0f, -89.0f, -boundless}) EXPECT_EQ(sigmoid(x), 0) << x;
  for (const float x : {91.39f, 3212.5f, boundless}) EXPECT_EQ(sigmoid(x), 1) << x;
  EXPECT_EQ(sigmoid(0), 0.5f);
  EXPECT_FLOAT_EQ(sigmoid(-0.5f), 0.37754067f);
  for (const float x : {30.0f, 1000.0f, boundless}) {
    EXPECT_EQ(tanh(x), 1);
    EXPECT_EQ(tanh(-x), -1);
    EXPECT_EQ(erf(x), 1);
    EXPECT_EQ(erf(-x), -1);
  }
  EXPECT_EQ(tanh(0), 0);
  EXPECT_EQ(erf(0), 0);
  for (const auto f : {+sigmoid, +tanh, +erf}) EXPECT_TRUE(std::isnan(f(NAN)));
}

TEST(Simd, ExponentialsAtTheEdges) {
  for (const float x : {-boundless, -1e30f, -1000.0f, -104.0f, -89.0f}) EXPECT_EQ(exp_of(x), 0) << x;
  for (const float x : {-boundless, -1e30f, -1000.0f, -150.0f, -126.5f}) EXPECT_EQ(exp2_of(x), 0) << x;
  for (const float x : {89.0f, 91.39f, 3212.5f, 1e30f, boundless}) EXPECT_EQ(exp_of(x), boundless) << x;
  EXPECT_EQ(exp_of(0), 1);
  EXPECT_EQ(exp_of(-0.0f), 1);
  EXPECT_EQ(exp2_of(0), 1);
  EXPECT_EQ(exp2_of(-126), 0x1p-126f);
  EXPECT_EQ(exp2_of(10), 1024);
  EXPECT_TRUE(std::isnan(exp_of(NAN)));
  EXPECT_TRUE(std::isnan(exp2_of(NAN)));
}

TEST(Simd, LanesDoNotMix) {
  constexpr Index lanes = Vec<float>::lanes;
  const float values[] = {-boundless, 0, NAN, 88.0f, -87.0f, 1000.0f, -1000.0f, 1e-8f};
  float x[lanes_of<float>], y[lanes_of<float>];
  for (Index i = 0; i < lanes; ++i) x[i] = values[i % 8];
  kernel::exp(Vec<float>::load(x)).store(y);
  for (Index i = 0; i < lanes; ++i) {
    if (std::isnan(x[i])) EXPECT_TRUE(std::isnan(y[i]));
    else EXPECT_EQ(y[i], exp_of(x[i])) << x[i];
  }
}

template <class T>
struct SimdVector : ::testing::Test {};
using Scalars = ::testing::Types<float, double>;
TYPED_TEST_SUITE(SimdVector, Scalars);

TYPED_TEST(SimdVector, PartialLoadsAndStoresTouchNothingElse) {
  using T = TypeParam;
  constexpr Index lanes = Vec<T>::lanes;
  for (Index count = 1; count < lanes; ++count)
    for (const Edge edge : {Edge::begin, Edge::end}) {
      const Guarded<T, 1> from(Shape{count}, {0, edge}, 1), to(Shape{count}, {0, edge}), full(Shape{lanes});
      const auto x = Vec<T>::load(from.view().data(), count);
      x.store(to.view().data(), count);
      x.store(full.view().data());
      for (Index i = 0; i < lanes; ++i) EXPECT_EQ(full(i), i < count ? from(i) : T{0});
      for (Index i = 0; i < count; ++i) EXPECT_EQ(to(i), from(i));
      kernel::load(from.view().data(), count, T{9}).store(full.view().data());
      for (Index i = 0; i < lanes; ++i) EXPECT_EQ(full(i), i < count ? from(i) : T{9});
    }
}

TYPED_TEST(SimdVector, Transposes) {
  using T = TypeParam;
  constexpr Index lanes = Vec<T>::lanes;
  Vec<T> square[lanes_of<T>];
  T row[lanes_of<T>];
  for (Index i = 0; i < lanes; ++i) {
    for (Index j = 0; j < lanes; ++j) row[j] = static_cast<T>(100 * i + j);
    square[i] = Vec<T>::load(row);
  }
  kernel::transpose(square);
  for (Index i = 0; i < lanes; ++i) {
    square[i].store(row);
    for (Index j = 0; j < lanes; ++j) EXPECT_EQ(row[j], static_cast<T>(100 * j + i));
  }
}

TYPED_TEST(SimdVector, SumsAnyLength) {
  using T = TypeParam;
  for (Index count = 0; count < 300; ++count) {
    const Guarded<T, 1> x(Shape{count});
    x.fill([i = 0]() mutable { return ++i; });  // integers: exact in any order
    const T* const data = x.view().data();
    EXPECT_EQ(kernel::sum_vectors<T>(count, [&](Index i, auto n) { return kernel::load(data + i, n); }),
              static_cast<T>(count * (count + 1) / 2));
  }
}

TYPED_TEST(SimdVector, Reduces) {
  using T = TypeParam;
  constexpr Index lanes = Vec<T>::lanes;
  for (Index place = 0; place < lanes; ++place) {
    T row[lanes_of<T>];
    std::fill_n(row, lanes, T{-5});
    row[place] = 3;
    EXPECT_EQ(kernel::largest(Vec<T>::load(row)), 3);
    EXPECT_EQ(kernel::sum(Vec<T>::load(row)), static_cast<T>(-5 * (lanes - 1) + 3));
  }
}
