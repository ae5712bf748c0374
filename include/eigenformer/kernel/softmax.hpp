// Softmax and its logarithm over the last axis.
#pragma once

#include <cmath>
#include <limits>

#include "eigenformer/core/gradient.hpp"
#include "eigenformer/core/threads.hpp"
#include "eigenformer/core/view.hpp"
#include "eigenformer/kernel/row.hpp"
#include "eigenformer/kernel/simd.hpp"

namespace eigenformer::kernel::inline EIGENFORMER_SIMD {

/// The largest of a row and Σ exp(x − largest): what a softmax needs, without overflow.
template <class T>
struct SoftmaxSum {
  T largest, sum;

  double log_sum_exp() const { return static_cast<double>(largest) + std::log(static_cast<double>(sum)); }
  Vec<T> probability(Vec<T> x) const { return exp(x - Vec<T>(largest)) * Vec<T>(1 / sum); }
};

/// The row must not be empty.
template <class T>
SoftmaxSum<T> softmax_sum(const T* x, Index width) {
  Vec<T> most(x[0]), total(T{0});
  for_vectors<T>(width, [&](Index j, auto count) { most = maximum(most, load(x + j, count, x[0])); });
  const T top = largest(most);
  for_vectors<T>(width, [&](Index j, auto count) { total = total + exp(load(x + j, count, -std::numeric_limits<T>::infinity()) - Vec<T>(top)); });
  return {top, sum(total)};
}

/// y = exp(x) / Σ exp(x), all (R, V)
template <class T>
void softmax_forward(const Threads& threads, ConstView<T, 2> x, View<T, 2> y) {
  const Index width = x.width();
  if (width == 0) return;
  threads.parallel_for(x.rows(), row_grain(width), [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      const auto total = softmax_sum(x.row(i), width);
      for_vectors<T>(width, [&](Index j, auto count) { store(y.row(i) + j, total.probability(load(x.row(i) + j, count)), count); });
    }
  });
}

/// dx ← y ∘ (dy − Σ dy∘y)
template <class T>
void softmax_backward(const Threads& threads, ConstView<T, 2> y, ConstView<T, 2> dy, Gradient<T, 2> dx) {
  if (!dx) return;
  const Index width = y.width();
  threads.parallel_for(y.rows(), row_grain(width), [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      const auto out = row_map(y.row(i), width), dout = row_map(dy.row(i), width);
      const T along = (out * dout).sum();
      dx.put(row_map(dx.row(i), width), out * (dout - along));
    }
  });
}

/// y = x − log Σ exp(x)
template <class T>
void log_softmax_forward(const Threads& threads, ConstView<T, 2> x, View<T, 2> y) {
  const Index width = x.width();
  if (width == 0) return;
  threads.parallel_for(x.rows(), row_grain(width), [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      const auto total = softmax_sum(x.row(i), width);
      row_map(y.row(i), width) = (row_map(x.row(i), width) - total.largest) - std::log(total.sum);
    }
  });
}

/// dx ← dy − exp(y) Σ dy
template <class T>
void log_softmax_backward(const Threads& threads, ConstView<T, 2> y, ConstView<T, 2> dy, Gradient<T, 2> dx) {
  if (!dx) return;
  const Index width = y.width();
  threads.parallel_for(y.rows(), row_grain(width), [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      const Vec<T> total(sum_vectors<T>(width, [&](Index j, auto n) { return load(dy.row(i) + j, n); }));
      for_vectors<T>(width, [&](Index j, auto count) {
        const Vec<T> slope = load(dy.row(i) + j, count) - exp(load(y.row(i) + j, count)) * total;
        store(dx.row(i) + j, dx.add ? load(dx.row(i) + j, count) + slope : slope, count);
      });
    }
  });
}

}  // namespace eigenformer::kernel::inline EIGENFORMER_SIMD
