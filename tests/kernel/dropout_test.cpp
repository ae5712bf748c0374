#include "eigenformer/kernel/dropout.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "support/guarded.hpp"
#include "support/tolerance.hpp"

using namespace eigenformer;
using namespace eigenformer::test;

namespace {

kernel::Dropout with(double probability, std::uint32_t step = 1, int uses_before = 0) {
  Random random{.seed = 11};
  random.start(step);
  for (int i = 0; i < uses_before; ++i) RandomSite{random};
  return {RandomSite(random), probability};
}

/// The mask that an input of ones shows, in units of 1/(1 − p).
std::vector<int> mask(const kernel::Dropout& dropout, Index rows, Index width) {
  const Guarded<double, 2> x(Shape{rows, width}), y(Shape{rows, width});
  x.fill([] { return 1; });
  kernel::dropout_forward<double>({}, x, {}, dropout, y);
  std::vector<int> result;
  for (Index i = 0; i < rows; ++i)
    for (Index j = 0; j < width; ++j)
      result.push_back(static_cast<int>(std::lround(y(i, j) * (1 - dropout.probability))));
  return result;
}

}  // namespace

template <class T>
struct DropoutKernel : ::testing::Test {};
using Scalars = ::testing::Types<float, double>;
TYPED_TEST_SUITE(DropoutKernel, Scalars);

TYPED_TEST(DropoutKernel, KeepsOrDropsAndAddsTheResidual) {
  using T = TypeParam;
  for (const Index rows : {1, 3, 17})
    for (const Index width : sizes)
      for (const double p : {0.0, 0.1, 0.5, 0.8})
        for_layouts([&](Layout layout) {
          const auto dropout = p > 0 ? with(p) : kernel::Dropout{};
          const auto kept = mask(with(p), rows, width);
          const T scale = static_cast<T>(1 / (1 - p));
          const Guarded<T, 2> x(Shape{rows, width}, layout, 1), residual(Shape{rows, width}, layout, 2),
              y(Shape{rows, width}, layout), z(Shape{rows, width}, layout), dx(Shape{rows, width}, layout),
              added(Shape{rows, width}, layout);
          kernel::dropout_forward<T>({}, x, {}, dropout, y);
          kernel::dropout_forward<T>({}, x, residual, dropout, z);
          kernel::dropout_backward<T>({}, x, dropout, {dx, false});
          const auto place = prepared(added, true);
          const auto before = added.values();
          kernel::dropout_backward<T>({}, x, dropout, place);
          const double rounding = 4 * static_cast<double>(std::numeric_limits<T>::epsilon());
          for (Index i = 0; i < rows; ++i)
            for (Index j = 0; j < width; ++j) {
              const T want = kept[static_cast<std::size_t>(i * width + j)] ? x(i, j) * scale : T{0};
              ASSERT_EQ(y(i, j), want) << i << ' ' << j;
              ASSERT_EQ(dx(i, j), want) << "the same mask";
              ASSERT_NEAR(static_cast<double>(z(i, j)), static_cast<double>(want + residual(i, j)), rounding);
              ASSERT_NEAR(static_cast<double>(added(i, j)), static_cast<double>(want) + before(i, j), 6 * rounding);
            }
        });
}

TYPED_TEST(DropoutKernel, DroppedMeansZeroWhateverItWas) {
  using T = TypeParam;
  const Guarded<T, 2> x(Shape{4, 21}), y(Shape{4, 21}), dx(Shape{4, 21});  // x is NaN
  const auto kept = mask(with(0.5), 4, 21);
  kernel::dropout_forward<T>({}, x, {}, with(0.5), y);
  kernel::dropout_backward<T>({}, x, with(0.5), {dx, false});
  for (Index i = 0; i < 84; ++i) {
    EXPECT_EQ(std::isnan(y(i / 21, i % 21)), kept[static_cast<std::size_t>(i)] == 1);
    EXPECT_EQ(std::isnan(dx(i / 21, i % 21)), kept[static_cast<std::size_t>(i)] == 1);
  }
}

TYPED_TEST(DropoutKernel, EmptyAxes) {
  using T = TypeParam;
  for (const auto shape : {Shape<2>{0, 5}, Shape<2>{5, 0}}) {
    const Guarded<T, 2> x(shape), y(shape);
    kernel::dropout_forward<T>({}, x, x, with(0.5), y);
    kernel::dropout_backward<T>({}, x, with(0.5), {y, false});
  }
}

TEST(Dropout, DropsTheRightShareInEveryColumn) {
  for (const double p : {0.1, 0.5, 0.8}) {
    constexpr Index rows = 20000, width = 16;
    const auto kept = mask(with(p), rows, width);
    std::vector<double> share(width);
    double total = 0;
    for (std::size_t i = 0; i < kept.size(); ++i) share[i % width] += kept[i], total += kept[i];
    for (const double column : share) EXPECT_NEAR(column / rows, 1 - p, 5 * std::sqrt(p * (1 - p) / rows)) << p;
    EXPECT_NEAR(total / (rows * width), 1 - p, 5 * std::sqrt(p * (1 - p) / (rows * width))) << p;
  }
}

// Pairs of neighbours agree as often as independent ones.
TEST(Dropout, NeighboursAreIndependent) {
  constexpr Index rows = 2000, width = 32;
  const auto kept = mask(with(0.5), rows, width);
  for (const std::size_t distance : {1u, 2u, 8u, 32u}) {
    double same = 0;
    const auto pairs = static_cast<double>(kept.size() - distance);
    for (std::size_t i = 0; i + distance < kept.size(); ++i) same += kept[i] == kept[i + distance];
    EXPECT_NEAR(same / pairs, 0.5, 5 * 0.5 / std::sqrt(pairs)) << distance;
  }
}

TEST(Dropout, TheMaskBelongsToStepAndSite) {
  EXPECT_EQ(mask(with(0.5), 8, 32), mask(with(0.5), 8, 32));
  EXPECT_NE(mask(with(0.5), 8, 32), mask(with(0.5, 2), 8, 32));
  EXPECT_NE(mask(with(0.5), 8, 32), mask(with(0.5, 1, 1), 8, 32));
}

TEST(Dropout, TheMaskOfARowDoesNotDependOnItsWidth) {
  const auto wide = mask(with(0.5), 3, 100), narrow = mask(with(0.5), 3, 13);
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t j = 0; j < 13; ++j) EXPECT_EQ(wide[100 * i + j], narrow[13 * i + j]);
}

// Of 2²⁴ elements the expected share is dropped, and of p near 1 kept, up to five standard deviations; what is kept is
// multiplied by 1/(1 − p), whatever is left of that. Rarer than 2⁻³³ is never.
TEST(Dropout, ProbabilitiesNearTheirEnds) {
  constexpr Index rows = 4096, columns = 4096, count = rows * columns;
  const auto survivors = [&](double p) {
    const auto dropout = with(p);
    const auto scale = static_cast<float>(1 / (1 - p));
    Index kept = 0, dropped = 0;
    float factors[static_cast<std::size_t>(kernel::Dropout::chunk)];
    for (Index row = 0; row < rows; ++row)
      for (Index number = 0; number < columns / kernel::Dropout::chunk; ++number) {
        dropout.factors(row, number, factors);
        for (const float factor : factors) kept += factor == scale, dropped += factor == 0;
      }
    EXPECT_EQ(kept + dropped, count) << "other factors, for " << p;
    return static_cast<double>(kept);
  };
  for (const double p : {1e-5, 2e-6}) {
    const double expected = p * static_cast<double>(count), deviations = 5 * std::sqrt(expected);
    EXPECT_NEAR(static_cast<double>(count) - survivors(p), expected, deviations) << p;
    EXPECT_NEAR(survivors(1 - p), expected, deviations) << 1 - p;
  }
  for (const double p : {1e-7, 1e-300}) EXPECT_LE(static_cast<double>(count) - survivors(p), p < 1e-10 ? 0 : 9) << p;
  EXPECT_LE(survivors(1 - 1e-7), 9);
  EXPECT_EQ(survivors(std::nextafter(1.0, 0.0)), 0);
}

// The two that share a random word are as independent as others.
TEST(Dropout, SharersOfAWordAreIndependent) {
  for (const double p : {0.001, 0.3}) {
    constexpr Index rows = 40000, width = 32;
    const auto kept = mask(with(p), rows, width);
    double both = 0;
    for (std::size_t i = 0; i < kept.size(); i += 32)
      for (std::size_t j = i; j < i + 16; ++j) both += kept[j] == 0 && kept[j + 16] == 0;
    const double pairs = 16.0 * rows, expected = p * p * pairs;
    EXPECT_NEAR(both, expected, 5 * std::sqrt(expected) + 1) << p;
  }
}
