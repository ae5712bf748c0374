// Softmax and its logarithm over the last axis.
#pragma once

#include <cmath>

#include "eigenformer/core/gradient.hpp"
#include "eigenformer/core/threads.hpp"
#include "eigenformer/core/view.hpp"
#include "eigenformer/kernel/row.hpp"

namespace eigenformer::kernel {

/// The largest of a row and Σ exp(x − largest): what a softmax needs, without overflow.
template <class T>
struct SoftmaxSum {
  T largest, sum;

  double log_sum_exp() const { return static_cast<double>(largest) + std::log(static_cast<double>(sum)); }
  T probability(T x) const { return std::exp(x - largest) / sum; }
};

/// The row must not be empty.
template <class T>
SoftmaxSum<T> softmax_sum(ConstRowMap<T> x) {
  const T largest = x.maxCoeff();
  T sum = 0;
  for (Index j = 0; j < x.size(); ++j) sum += std::exp(x[j] - largest);
  return {largest, sum};
}

/// y = exp(x) / Σ exp(x), all (R, V)
template <class T>
void softmax_forward(const Threads& threads, ConstView<T, 2> x, View<T, 2> y) {
  const Index width = x.width();
  if (width == 0) return;
  threads.parallel_for(x.rows(), row_grain(width), [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      const auto total = softmax_sum<T>(row_map(x.row(i), width));
      for (Index j = 0; j < width; ++j) y.row(i)[j] = total.probability(x.row(i)[j]);
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
      const auto total = softmax_sum<T>(row_map(x.row(i), width));
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
      const auto out = row_map(y.row(i), width), dout = row_map(dy.row(i), width);
      const T total = dout.sum();
      dx.put(row_map(dx.row(i), width), dout - out.exp() * total);
    }
  });
}

}  // namespace eigenformer::kernel
