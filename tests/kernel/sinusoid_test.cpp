#include "eigenformer/kernel/sinusoid.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "support/guarded.hpp"
#include "support/oracle.hpp"
#include "support/tolerance.hpp"

using namespace eigenformer;
using namespace eigenformer::test;

namespace {

constexpr double base = 10000;

/// The encoding of one position.
std::vector<double> encoding(Index width, Index position) {
  const Tensor<double, 3> x(Shape{Index{1}, Index{1}, width});
  const Guarded<double, 3> y(x.shape());
  kernel::sinusoid_forward<double>({}, x, {.first = position}, base, y);
  const auto values = y.values();
  return {values.data(), values.data() + width};
}

}  // namespace

template <class T>
struct SinusoidKernel : ::testing::Test {};
using Scalars = ::testing::Types<float, double>;
TYPED_TEST_SUITE(SinusoidKernel, Scalars);

TYPED_TEST(SinusoidKernel, AddsTheEncoding) {
  using T = TypeParam;
  for (const Index width : sizes)
    for (const Index tokens : {0, 1, 33, 70})
      for (const Index first : {0, 5, 31, 32, 1000})
        for_layouts([&](Layout layout) {
          SCOPED_TRACE(to_string(Shape{width, tokens, first}));
          const Guarded<T, 3> x(Shape{Index{2}, tokens, width}, layout, 1), y(Shape{Index{2}, tokens, width}, layout);
          oracle::Expected<3> want(x.view().shape());
          want.values = x.values();
          for (Index b = 0; b < 2; ++b)
            for (Index n = 0; n < tokens; ++n)
              for (Index j = 0; j < width; ++j) {
                const double angle = static_cast<double>(first + n) /
                                     std::pow(base, static_cast<double>(j - j % 2) / static_cast<double>(width));
                want.values(b, n, j) += j % 2 == 0 ? std::sin(angle) : std::cos(angle);
              }
          want.magnitude =
              sizeof(T) == 4 ? 2 : 2 + static_cast<double>(first + tokens);  // angles are rounded in double
          kernel::sinusoid_forward<T>({}, x, {.first = first}, base, y);
          expect_close(y, want, Tolerance<T>::sinusoid);
        });
}

TEST(Sinusoid, InterleavesSineAndCosine) {
  const auto y = encoding(4, 1);
  const double want[] = {0.84147098, 0.54030231, 0.00999983, 0.99995000};
  for (std::size_t j = 0; j < 4; ++j) EXPECT_NEAR(y[j], want[j], 5e-9);
}

TEST(Sinusoid, AnOddWidthEndsWithASine) {
  const auto y = encoding(5, 1);
  const double want[] = {0.84147098, 0.54030231, 0.02511622, 0.99968454, 6.3095730e-4};
  for (std::size_t j = 0; j < 5; ++j) EXPECT_NEAR(y[j], want[j], 5e-9);
}

TEST(Sinusoid, APositionHasTheSameBitsWhereverTheSequenceBegins) {
  const Tensor<float, 3> x(Shape{1, 200, 10});
  Tensor<float, 3> all(x.shape());
  kernel::sinusoid_forward<float>({}, x.view(), {}, base, all.view());
  for (const Index first : {1, 17, 31, 32, 33, 100}) {
    Tensor<float, 3> some(Shape{Index{1}, 200 - first, Index{10}});
    kernel::sinusoid_forward<float>({}, x.view().slice(1, 0, 200 - first), {.first = first}, base, some.view());
    for (Index n = first; n < 200; ++n)
      for (Index j = 0; j < 10; ++j) ASSERT_EQ(some(0, n - first, j), all(0, n, j)) << first << ' ' << n;
  }
}

TEST(Sinusoid, FarPositionsKeepTheirDigits) {
  // cos(257), cos(15962): a table in bfloat16, or of float angles, has none of these digits.
  EXPECT_NEAR(encoding(2, 257)[1], 0.81930553, 5e-9);
  EXPECT_NEAR(encoding(2, 15962)[1], -0.90801590, 5e-9);
  EXPECT_NEAR(encoding(128, 131071)[3], -0.97827091, 5e-9);
}
