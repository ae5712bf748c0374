// Activations: each is a type with value(x) and slope(x), both elementwise.
#pragma once

#include "eigenformer/core/gradient.hpp"
#include "eigenformer/core/threads.hpp"
#include "eigenformer/core/view.hpp"
#include "eigenformer/kernel/row.hpp"

namespace eigenformer {

/// max(x, 0); the slope at 0 is 0.
struct Relu {
  template <class T>
  static T value(T x) {
    return x > 0 ? x : T{0};
  }
  template <class T>
  static T slope(T x) {
    return x > 0 ? T{1} : T{0};
  }
};

namespace kernel {

/// y = activation(x), all (R, D)
template <class Activation, class T>
void activation_forward(const Threads& threads, ConstView<T, 2> x, View<T, 2> y) {
  const Index width = x.width();
  threads.parallel_for(x.rows(), row_grain(width), [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i)
      for (Index j = 0; j < width; ++j) y.row(i)[j] = Activation::value(x.row(i)[j]);
  });
}

/// dx ← dy ∘ activation′(x)
template <class Activation, class T>
void activation_backward(const Threads& threads, ConstView<T, 2> x, ConstView<T, 2> dy, Gradient<T, 2> dx) {
  if (!dx) return;
  const Index width = x.width();
  threads.parallel_for(x.rows(), row_grain(width), [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i)
      dx.put(row_map(dx.row(i), width), row_map(dy.row(i), width) * row_map(x.row(i), width).unaryExpr([](T value) { return Activation::slope(value); }));
  });
}

}  // namespace kernel
}  // namespace eigenformer
