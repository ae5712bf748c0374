// Tensors for tests: random ones, small literal ones, and how two of them compare.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>

#include "eigenformer/core/random.hpp"
#include "eigenformer/core/tensor.hpp"
#include "eigenformer/core/visit.hpp"

namespace eigenformer::test {

/// Normal numbers.
template <class T, int Rank>
Tensor<T, Rank> random_tensor(Shape<Rank> shape, std::uint64_t seed) {
  Tensor<T, Rank> x(shape);
  RandomSequence random(seed);
  std::generate_n(x.data(), x.size(), [&] { return static_cast<T>(random.normal()); });
  return x;
}

/// Ids in [first, vocabulary).
inline Tensor<Id, 2> random_ids(Shape<2> shape, Id first, Id vocabulary, std::uint64_t seed) {
  Tensor<Id, 2> ids(shape);
  RandomSequence random(seed);
  std::generate_n(ids.data(), ids.size(), [&] { return first + static_cast<Id>(random.below(vocabulary - first)); });
  return ids;
}

/// The values in rows, e.g. matrix<Id>({{1, 2}, {3, 4}}).
template <class T>
Tensor<T, 2> matrix(std::initializer_list<std::initializer_list<T>> rows) {
  Tensor<T, 2> x(Shape{static_cast<Index>(rows.size()), static_cast<Index>(rows.begin()->size())});
  T* next = x.data();
  for (const auto& row : rows) next = std::copy(row.begin(), row.end(), next);
  return x;
}

inline Tensor<Index, 1> lengths(std::initializer_list<Index> values) {
  Tensor<Index, 1> x(Shape{static_cast<Index>(values.size())});
  std::copy(values.begin(), values.end(), x.data());
  return x;
}

/// Weights without any symmetry: matrices of size 1/√In, the scales of norms around 1, biases around 0.
template <class Model>
void randomize(Model& model, std::uint64_t seed) {
  RandomSequence random(seed);
  walk(
      [&](const std::string&, const Leaf& leaf, auto& x) {
        using T = std::remove_reference_t<decltype(*x.data())>;
        const double size = x.rank == 2 ? 1 / std::sqrt(static_cast<double>(x.shape().width())) : 0.2;
        const double centre = leaf.init == Init::ones ? 1 : 0;
        std::generate_n(x.data(), x.size(), [&] { return static_cast<T>(centre + size * random.normal()); });
      },
      model);
}

/// The largest absolute value.
double magnitude(const auto& x) {
  double largest = 0;
  for (Index i = 0; i < x.size(); ++i) largest = (std::max)(largest, std::abs(static_cast<double>(x.data()[i])));
  return largest;
}

/// The largest distance of two elements; infinite if there is a NaN or the shapes differ. Both are contiguous.
double difference(const auto& a, const auto& b) {
  if (a.shape() != b.shape()) return HUGE_VAL;
  double largest = 0;
  for (Index i = 0; i < a.size(); ++i) {
    const double distance = std::abs(static_cast<double>(a.data()[i]) - static_cast<double>(b.data()[i]));
    largest = std::isnan(distance) ? HUGE_VAL : (std::max)(largest, distance);
  }
  return largest;
}

/// Bit by bit; both are contiguous.
bool identical(const auto& a, const auto& b) {
  return a.shape() == b.shape() &&
         std::memcmp(a.data(), b.data(), static_cast<std::size_t>(a.size()) * sizeof(*a.data())) == 0;
}

/// All weights bit by bit.
template <class Model>
void expect_identical_models(const Model& a, const Model& b) {
  walk([](const std::string& path, const Leaf&, const auto& x, const auto& y) { EXPECT_TRUE(identical(x, y)) << path; },
       a, b);
}

}  // namespace eigenformer::test
