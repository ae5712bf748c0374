// Activations: each is a type with value(x) and slope(x) on vectors, for passes of their own and for the end of a product.
#pragma once

#include "eigenformer/core/gradient.hpp"
#include "eigenformer/core/threads.hpp"
#include "eigenformer/core/view.hpp"
#include "eigenformer/kernel/row.hpp"
#include "eigenformer/kernel/simd.hpp"

namespace eigenformer {

/// max(x, 0); the slope at 0 is 0.
struct Relu {
  template <class V>
  static V value(V x) {
    return maximum(x, V(0));
  }
  template <class V>
  static V slope(V x) {
    return where_less(V(0), x, V(1));
  }
};

namespace kernel::inline EIGENFORMER_SIMD {

/// y = activation(x), all (R, D)
template <class Activation, class T>
void activation_forward(const Threads& threads, ConstView<T, 2> x, View<T, 2> y) {
  const Index width = x.width();
  threads.parallel_for(x.rows(), row_grain(width), [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i)
      for_vectors<T>(width, [&](Index j, auto n) { store(y.row(i) + j, Activation::value(load(x.row(i) + j, n)), n); });
  });
}

/// dx ← dy ∘ activation′(x)
template <class Activation, class T>
void activation_backward(const Threads& threads, ConstView<T, 2> x, ConstView<T, 2> dy, Gradient<T, 2> dx) {
  if (!dx) return;
  const Index width = x.width();
  threads.parallel_for(x.rows(), row_grain(width), [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i)
      for_vectors<T>(width, [&](Index j, auto n) {
        const Vec<T> slope = load(dy.row(i) + j, n) * Activation::slope(load(x.row(i) + j, n));
        store(dx.row(i) + j, dx.add ? load(dx.row(i) + j, n) + slope : slope, n);
      });
  });
}

/// The end of a product: adds bias (N), which may be null, keeps that sum if `kept` is given, and applies the activation.
template <class Activation, class T>
struct ActivatedBias {
  const T* bias;
  View<T, 2> kept{};

  void operator()(Index row, Index column, T* out, Index count) const {
    T* const keep = kept ? kept.row(row) + column : nullptr;
    for_vectors<T>(count, [&](Index i, auto n) {
      const Vec<T> sum = bias ? load(out + i, n) + load(bias + column + i, n) : load(out + i, n);
      if (keep) store(keep + i, sum, n);
      store(out + i, Activation::value(sum), n);
    });
  }
};

}  // namespace kernel::inline EIGENFORMER_SIMD
}  // namespace eigenformer
