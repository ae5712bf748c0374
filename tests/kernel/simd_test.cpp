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
#include <vector>

#include "support/exceptions.hpp"
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
  for (const float value : values)
    EXPECT_EQ(std::bit_cast<std::uint32_t>(value), std::bit_cast<std::uint32_t>(values[0]));
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
  EXPECT_LE(worst_error(
                1e-10f, 88.7f, [](float x) { return everywhere(x, [](Vec<float> v) { return kernel::sigmoid(v); }); },
                [](double x) { return 1 / (1 + std::exp(-x)); }),
            3);
  EXPECT_LE(worst_error(
                1e-10f, 100.0f, [](float x) { return everywhere(x, [](Vec<float> v) { return kernel::tanh(v); }); },
                [](double x) { return std::tanh(x); }),
            3);
  EXPECT_LE(worst_error(
                1e-10f, 100.0f, [](float x) { return everywhere(x, [](Vec<float> v) { return kernel::erf(v); }); },
                [](double x) { return std::erf(x); }),
            2.5);
}

TEST(Simd, NormalDistribution) {
  for (float x = -12.9f; x < 9; x += 0.0037f) {
    const double at = static_cast<double>(x), bound = at * at * 0x1p-24;
    const double density = everywhere(x, [](Vec<float> v) { return kernel::normal(v).density; });
    const double integral = everywhere(x, [](Vec<float> v) { return kernel::normal(v).integral; });
    const double want = std::exp(-at * at / 2) / std::sqrt(2 * std::numbers::pi),
                 total = std::erfc(-at / std::numbers::sqrt2) / 2;
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

// Every function, in every lane of a vector and of a lot, whatever Eigen's packets are: single numbers too.

template <class V>
struct SimdFunction : ::testing::Test {
  using Scalar = typename V::Scalar;
  static constexpr Scalar infinity = std::numeric_limits<Scalar>::infinity();
  static constexpr auto lanes = std::integral_constant<Index, V::lanes>();

  /// f(operands…) of vectors must be want(operands…), each operand being any of the numbers in any lane.
  template <class F, class Want, std::size_t... I>
  static void expect_each(const std::vector<Scalar>& numbers, F&& f, Want&& want, std::index_sequence<I...>) {
    constexpr std::size_t operands = sizeof...(I), size = static_cast<std::size_t>(V::lanes);
    std::size_t cases = 1;
    for (std::size_t i = 0; i < operands; ++i) cases *= numbers.size();
    Scalar in[operands][size], out[size];
    for (std::size_t start = 0; start < cases; ++start) {
      for (std::size_t lane = 0; lane < size; ++lane)
        for (std::size_t i = 0, rest = start + lane; i < operands; ++i, rest /= numbers.size())
          in[i][lane] = numbers[rest % numbers.size()];
      kernel::store(out, f(kernel::load(in[I], lanes)...), lanes);
      for (std::size_t lane = 0; lane < size; ++lane) {
        const Scalar expected = want(in[I][lane]...);
        if (std::isnan(expected)) EXPECT_TRUE(std::isnan(out[lane])) << lane;
        else EXPECT_EQ(out[lane], expected) << "lane " << lane << " of " << V::lanes << ", " << in[0][lane];
      }
      if (::testing::Test::HasFailure()) return;
    }
  }
  template <int Operands, class F, class Want>
  static void expect(const std::vector<Scalar>& numbers, F&& f, Want&& want) {
    expect_each(numbers, f, want, std::make_index_sequence<static_cast<std::size_t>(Operands)>());
  }

  /// f(x) in every lane, within a relative error of want(x); in float what is subnormal may be 0.
  static void expect_near(const std::vector<Scalar>& numbers, double error, auto&& f, auto&& want) {
    constexpr bool single = std::is_same_v<Scalar, float>;
    Scalar in[static_cast<std::size_t>(V::lanes)], out[static_cast<std::size_t>(V::lanes)];
    for (std::size_t start = 0; start < numbers.size(); ++start) {
      for (std::size_t lane = 0; lane < std::size(in); ++lane) in[lane] = numbers[(start + lane) % numbers.size()];
      kernel::store(out, f(kernel::load(in, lanes)), lanes);
      for (std::size_t lane = 0; lane < std::size(in); ++lane) {
        const double exact = want(static_cast<double>(in[lane])), size = std::abs(exact);
        EXPECT_LE(std::abs(static_cast<double>(out[lane]) - exact), single && size < 0x1p-126 ? size : size * error)
            << in[lane];
      }
    }
  }
};
using Vectors = ::testing::Types<Vec<float>, Vec<double>, kernel::VecPack<float>, kernel::VecPack<double>>;
TYPED_TEST_SUITE(SimdFunction, Vectors);

TYPED_TEST(SimdFunction, ArithmeticInEveryLane) {
  using V = TypeParam;
  using T = typename V::Scalar;
  const std::vector<T> numbers{T(-3.25), T(0), T(1.5), T(7), T(-0.125)};
  this->template expect<2>(
      numbers, [](V a, V b) { return a + b; }, [](T a, T b) { return a + b; });
  this->template expect<2>(
      numbers, [](V a, V b) { return a - b; }, [](T a, T b) { return a - b; });
  this->template expect<2>(
      numbers, [](V a, V b) { return a * b; }, [](T a, T b) { return a * b; });
  this->template expect<2>(
      numbers, [](V a, V b) { return a / (b + V(T(0.5))); }, [](T a, T b) { return a / (b + T(0.5)); });
  this->template expect<3>(
      numbers, [](V a, V b, V c) { return fma(a, b, c); }, [](T a, T b, T c) { return std::fma(a, b, c); });
  this->template expect<1>(
      numbers, [](V a) { return absolute(a); }, [](T a) { return std::abs(a); });
  this->template expect<1>(
      {T(0), T(2), T(1e-30), T(9), this->infinity}, [](V a) { return square_root(a); },
      [](T a) { return std::sqrt(a); });
  T count[static_cast<std::size_t>(V::lanes)];
  kernel::store(count, kernel::counting(T(3), this->lanes), this->lanes);
  for (Index i = 0; i < V::lanes; ++i) EXPECT_EQ(count[i], static_cast<T>(3 + i));
}

TYPED_TEST(SimdFunction, SelectionInEveryLane) {
  using V = TypeParam;
  using T = typename V::Scalar;
  const std::vector<T> numbers{T(-2), T(0), T(3.14), this->infinity, -this->infinity, T(1)};
  this->template expect<2>(
      numbers, [](V a, V b) { return maximum(a, b); }, [](T a, T b) { return std::max(a, b); });
  this->template expect<2>(
      numbers, [](V a, V b) { return minimum(a, b); }, [](T a, T b) { return std::min(a, b); });
  this->template expect<3>(
      numbers, [](V a, V b, V x) { return where_less(a, b, x); }, [](T a, T b, T x) { return a < b ? x : T(0); });
  this->template expect<3>(
      numbers, [](V a, V b, V x) { return choose_less(a, b, x, V(T(2.71))); },
      [](T a, T b, T x) { return a < b ? x : T(2.71); });
  this->template expect<3>(
      numbers, [](V a, V b, V x) { return choose_less(a, b, V(T(2.71)), x); },
      [](T a, T b, T x) { return a < b ? T(2.71) : x; });
}

TYPED_TEST(SimdFunction, NotANumberIsLessThanNothingAndStays) {
  using V = TypeParam;
  using T = typename V::Scalar;
  const std::vector<T> numbers{std::numeric_limits<T>::quiet_NaN(), T(2)};
  this->template expect<2>(
      numbers, [](V a, V b) { return choose_less(a, b, V(T(1)), V(T(5))); }, [](T, T) { return T(5); });
  this->template expect<2>(
      numbers, [](V a, V b) { return where_less(a, b, V(T(1))); }, [](T, T) { return T(0); });
  this->template expect<1>(
      numbers, [](V a) { return maximum(minimum(a, V(T(3))), V(T(-3))); }, [](T a) { return a; });
  for (const auto f :
       {+[](V a) { return exp(a); }, +[](V a) { return exp2(a); }, +[](V a) { return exp_of_negative(a); },
        +[](V a) { return sigmoid(a); }, +[](V a) { return tanh(a); }, +[](V a) { return erf(a); },
        +[](V a) { return normal(a).integral; }})
    this->template expect<1>({numbers[0]}, f, [](T a) { return a; });
}

TYPED_TEST(SimdFunction, AsTheStandardLibraryHasIt) {
  using V = TypeParam;
  using T = typename V::Scalar;
  const double unit = static_cast<double>(std::numeric_limits<T>::epsilon());
  std::vector<T> numbers{T(-1000), T(-104),  T(-89),    T(-88.03),      T(-88),         T(0),
                         T(-0.5),  T(91.39), T(3212.5), this->infinity, -this->infinity};
  for (int i = -90; i < 90; ++i) numbers.push_back(static_cast<T>(i + 0.37 * (i % 3)));
  const auto sigma = [](double x) { return 1 / (1 + std::exp(-x)); };
  this->expect_near(
      numbers, 3 * unit, [](V x) { return sigmoid(x); }, sigma);
  this->expect_near(
      numbers, 3 * unit, [](V x) { return logistic(x).value; }, sigma);
  this->expect_near(
      numbers, 6 * unit, [](V x) { return logistic(x).derivative; }, [=](double x) { return sigma(x) * sigma(-x); });
  this->expect_near(
      numbers, 3 * unit, [](V x) { return tanh(x); }, [](double x) { return std::tanh(x); });
  this->expect_near(
      numbers, 3 * unit, [](V x) { return erf(x); }, [](double x) { return std::erf(x); });
  std::erase_if(numbers, [](T x) { return x > 88; });
  this->expect_near(
      numbers, 2 * unit, [](V x) { return exp(x); }, [](double x) { return std::exp(x); });
  this->expect_near(
      numbers, 2 * unit, [](V x) { return exp2(x); }, [](double x) { return std::exp2(x); });
  std::erase_if(numbers, [](T x) { return x > 0; });
  this->expect_near(
      numbers, 91 * unit, [](V x) { return exp_of_negative(x); }, [](double x) { return std::exp(x); });
}

TYPED_TEST(SimdFunction, ExponentialsAtTheirEnds) {
  using V = TypeParam;
  using T = typename V::Scalar;
  // Where a result would be subnormal, it is 0 in float. In double it is there: e⁻⁷⁰⁸ = 3.3075530e-308, e⁻⁷⁴⁵
  // = 4.94e-324.
  const std::vector<T> nothing{-this->infinity, T(-1e30), T(-1000), T(-3.4e38)};
  this->template expect<1>(
      nothing, [](V x) { return exp(x); }, [](T) { return T(0); });
  this->template expect<1>(
      nothing, [](V x) { return exp2(x); }, [](T x) { return std::is_same_v<T, double> ? std::exp2(x) : T(0); });
  this->template expect<1>(
      nothing, [](V x) { return exp_of_negative(x); }, [](T) { return T(0); });
  if constexpr (std::is_same_v<T, float>) {
    const float least = -87.33654f, below = std::nextafter(least, -100.0f);  // to 1.175494e-38, the least normal number
    for (const auto f : {+[](V x) { return exp(x); }, +[](V x) { return exp_of_negative(x); }})
      this->template expect<1>({-87.4f, -88.03f, -100.0f}, f, [](float) { return 0.0f; });
    this->template expect<1>(
        {below}, [](V x) { return exp(x); }, [](float) { return 0.0f; });
    this->expect_near(
        {least}, 1.6e-7, [](V x) { return exp(x); }, [](double) { return 1.175499673925490725e-38; });
    this->template expect<1>(
        {88.722840f, 89.0f, 3e38f, this->infinity}, [](V x) { return exp(x); }, [&](float) { return this->infinity; });
    this->expect_near(
        {88.722832f}, 2e-7, [](V x) { return exp(x); }, [](double x) { return std::exp(x); });
    this->template expect<1>(
        {-126.0f}, [](V x) { return exp2(x); }, [](float) { return 0x1p-126f; });
    this->template expect<1>(
        {-126.00001f, -127.0f, -149.0f}, [](V x) { return exp2(x); }, [](float) { return 0.0f; });
    this->template expect<1>(
        {127.0f}, [](V x) { return exp2(x); }, [](float) { return 0x1p127f; });
  } else {
    for (const auto f : {+[](V x) { return exp(x); }, +[](V x) { return exp_of_negative(x); }}) {
      this->expect_near({-708.0}, 1e-15, f, [](double) { return 3.307553003638408e-308; });
      this->template expect<1>({-745.0}, f, [](double) { return 0x1p-1074; });
    }
    this->template expect<1>(
        {709.7827128933841, 800.0, this->infinity}, [](V x) { return exp(x); }, [&](double) { return this->infinity; });
    this->template expect<1>(
        {709.782712893384}, [](V x) { return exp(x); }, [](double x) { return std::exp(x); });
    this->template expect<1>(
        {-1074.0, -1022.0, 1023.0}, [](V x) { return exp2(x); },
        [](double x) { return std::ldexp(1.0, static_cast<int>(x)); });
    this->template expect<1>(
        {1024.0, this->infinity}, [](V x) { return exp2(x); }, [&](double) { return this->infinity; });
  }
}

TYPED_TEST(SimdFunction, NoNumberTraps) {
  using V = TypeParam;
  using T = typename V::Scalar;
  constexpr T most = (std::numeric_limits<T>::max)(), least = std::numeric_limits<T>::denorm_min();
  std::vector<T> numbers{this->infinity, -this->infinity, most, -most, least, -least, T(0)};
  for (const double size : {1e-20, 1e-3, 0.5, 5.0, 30.0, 87.0, 100.0, 745.0, 1e4, 1e9, 1e20, 1e37})
    for (const double x : {size, -size}) numbers.push_back(static_cast<T>(x));
  T in[static_cast<std::size_t>(V::lanes)], out[static_cast<std::size_t>(V::lanes)];
  const auto expect_quiet = [&](const char* name, auto&& f) {
    for (const T x : numbers) {
      std::fill_n(in, V::lanes, x);
      EXPECT_EQ(raised([&] { kernel::store(out, f(kernel::load(in, this->lanes)), this->lanes); }), "")
          << name << " of " << x;
    }
  };
  expect_quiet("square_root", [](V x) { return square_root(maximum(x, V(T(0)))); });
  expect_quiet("exp", [](V x) { return exp(x); });
  expect_quiet("exp2", [](V x) { return exp2(minimum(x, V(T(127)))); });
  expect_quiet("exp_of_negative", [](V x) { return exp_of_negative(minimum(x, V(T(0)))); });
  expect_quiet("sigmoid", [](V x) { return sigmoid(x); });
  expect_quiet("logistic", [](V x) { return logistic(x).derivative; });
  expect_quiet("tanh", [](V x) { return tanh(x); });
  expect_quiet("erf", [](V x) { return erf(x); });
  expect_quiet("density", [](V x) { return normal(x).density; });
  expect_quiet("integral", [](V x) { return normal(x).integral; });
}
