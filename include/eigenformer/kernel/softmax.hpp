// Softmax and its logarithm over the last axis.
#pragma once

#include <cmath>
#include <limits>
#include <type_traits>

#include "eigenformer/core/gradient.hpp"
#include "eigenformer/core/threads.hpp"
#include "eigenformer/core/view.hpp"
#include "eigenformer/kernel/row.hpp"
#include "eigenformer/kernel/simd.hpp"

namespace eigenformer::inline EIGENFORMER_ABI::kernel {

/// The largest of a row and Σ exp(x − largest): what a softmax needs, without overflow.
template <class T>
struct SoftmaxSum {
  T largest, sum;

  double log_sum_exp() const { return static_cast<double>(largest) + std::log(static_cast<double>(sum)); }
  template <class V>
  V probability(V x) const {
    return exp(x - V(largest)) * V(1 / sum);
  }
};

/// The row must not be empty. `each(j, n, e)` gets every exp(x − largest), a vector at a time.
template <class T, class F>
SoftmaxSum<T> softmax_sum(const T* x, Index width, F&& each) {
  Vec<T> most[4] = {x[0], x[0], x[0], x[0]};
  Index i = 0;
  for (; i + 4 * Vec<T>::lanes <= width; i += 4 * Vec<T>::lanes)
    unroll<4>([&](auto c)
                  EIGENFORMER_INLINE_LAMBDA { most[c] = maximum(most[c], Vec<T>::load(x + i + c * Vec<T>::lanes)); });
  for_vectors<T>(width - i, [&](Index j, auto n) { most[0] = maximum(most[0], load(x + i + j, n, x[0])); });
  const T top = largest(maximum(maximum(most[0], most[1]), maximum(most[2], most[3])));
  VecPack<T> totals(T{0});
  for_vec_packs<T>(width, [&](Index j, auto n) EIGENFORMER_INLINE_LAMBDA {
    const auto in = load(x + j, n, -std::numeric_limits<T>::infinity());
    const auto e = exp(in - std::remove_const_t<decltype(in)>(top));
    each(j, n, e);
    if constexpr (std::is_same_v<decltype(e), const VecPack<T>>) totals = totals + e;
    else totals.parts[0] = totals.parts[0] + e;
  });
  Vec<T> total = totals.parts[0];
  unroll<VecPack<T>::count - 1>([&](auto c) EIGENFORMER_INLINE_LAMBDA { total = total + totals.parts[c + 1]; });
  const T sum = kernel::sum(total);
  return {top, sum};
}

/// y = exp(x) / Σ exp(x), all (R, V)
template <class T>
void softmax_forward(const Threads& threads, ConstView<T, 2> x, View<T, 2> y) {
  const Index width = x.width();
  if (width == 0) return;
  threads.parallel_for(x.rows(), row_grain(width), [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      T* const out = y.row(i);
      const auto total = softmax_sum(
          x.row(i), width, [&](Index j, auto n, const auto& e) EIGENFORMER_INLINE_LAMBDA { store(out + j, e, n); });
      const Vec<T> factor(1 / total.sum);
      for_vectors<T>(width, [&](Index j, auto n) { store(out + j, load(out + j, n) * factor, n); });
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
      const T row_dot = (out * dout).sum();
      dx.put(row_map(dx.row(i), width), out * (dout - row_dot));
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
      const auto total = softmax_sum(x.row(i), width, [](auto...) {});
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
      for_vec_packs<T>(width, [&](Index j, auto count) {
        auto p = exp(load(y.row(i) + j, count));
        const auto gradient = load(dy.row(i) + j, count) - p * decltype(p)(total);
        store(dx.row(i) + j, dx.add ? load(dx.row(i) + j, count) + gradient : gradient, count);
      });
    }
  });
}

}  // namespace eigenformer::kernel
