// How far a kernel may be from the oracle: a multiple of epsilon and of the magnitude of what was added up.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "eigenformer/core/gradient.hpp"
#include "support/guarded.hpp"
#include "support/oracle.hpp"

namespace eigenformer::test {

/// Multiples of epsilon. The oracle for double is no better than what it judges, so both may err.
template <class T>
struct Tolerance;
template <>
struct Tolerance<float> {
  static constexpr double product = 8, norm = 16, softmax = 8, attention = 16, elementwise = 4, sinusoid = 2;
};
template <>
struct Tolerance<double> {
  static constexpr double product = 16, norm = 32, softmax = 16, attention = 32, elementwise = 8, sinusoid = 64;
};

/// Every element of `got` lies within multiple·epsilon·magnitude of what is expected. NaN is not close to anything.
template <class T, int Rank>
void expect_close(const Guarded<T, Rank>& got, const oracle::Expected<Rank>& want, double multiple) {
  ASSERT_EQ(got.view().shape(), want.values.shape());
  const Tensor<double, Rank> values = got.values();
  const double unit = static_cast<double>(std::numeric_limits<T>::epsilon()) * want.magnitude;
  for (Index i = 0; i < values.size(); ++i) {
    const double error = std::abs(values.data()[i] - want.values.data()[i]);
    if (error <= multiple * unit) continue;
    ADD_FAILURE() << "element " << i << " of " << to_string(values.shape()) << ": " << values.data()[i]
                  << " instead of " << want.values.data()[i] << ", off by " << error / unit << " epsilons, not "
                  << multiple;
    return;
  }
}

/// Vector widths are 4, 8 or 16 floats; these lie around 16.
inline constexpr Index sizes[] = {1, 3, 8, 15, 16, 17, 21, 130};

/// f(a, b, c) so that every pair of sizes occurs at every two of the three.
void for_sizes(auto&& f) {
  for (int i = 0; i < 8; ++i)
    for (int j = 0; j < 8; ++j) {
      const Index a = sizes[i], b = sizes[j], c = sizes[(i + j) % 8];
      SCOPED_TRACE("sizes " + to_string(Shape{a, b, c}));
      f(a, b, c);
      if (::testing::Test::HasFailure()) return;
    }
}

/// f(layout) for every way to lie in memory.
void for_layouts(auto&& f) {
  for (const Layout& layout : layouts) {
    SCOPED_TRACE("gap " + std::to_string(layout.gap) +
                 (layout.edge == Edge::begin ? ", at the begin" : ", at the end"));
    f(layout);
    if (::testing::Test::HasFailure()) return;
  }
}

/// What a Gradient does to what it finds: overwrite NaN, or add to numbers.
template <class T, int Rank>
Gradient<T, Rank> prepared(const Guarded<T, Rank>& place, bool add) {
  if (add) place.fill(Numbers(77));
  return {place.view(), add};
}

}  // namespace eigenformer::test
