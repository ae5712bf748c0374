// y = x ∘ weight + bias, by element of a row or by one number for all.
#pragma once

#include <algorithm>

#include "eigenformer/core/arena.hpp"
#include "eigenformer/core/gradient.hpp"
#include "eigenformer/core/threads.hpp"
#include "eigenformer/core/view.hpp"
#include "eigenformer/kernel/row.hpp"
#include "eigenformer/kernel/simd.hpp"

namespace eigenformer::inline EIGENFORMER_ABI::kernel {

/// x, y (R, D); weight (D) or (1), bias (D), either may be null; the weight is multiplied by `factor`.
template <class T>
void affine_forward(const Threads& threads, ConstView<T, 2> x, ConstView<T, 1> weight, T factor, ConstView<T, 1> bias,
                    View<T, 2> y) {
  const Index width = x.width();
  const bool by_element = weight && weight.size() == width;
  const Vec<T> all(weight && !by_element ? weight[0] * factor : factor);
  threads.parallel_for(x.rows(), row_grain(width), [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i)
      for_vectors<T>(width, [&](Index j, auto n) {
        const Vec<T> scaled = load(x.row(i) + j, n) * (by_element ? load(weight.data() + j, n) * all : all);
        store(y.row(i) + j, bias ? scaled + load(bias.data() + j, n) : scaled, n);
      });
  });
}

template <class T>
void affine_backward(const Threads& threads, Arena& arena, ConstView<T, 2> x, ConstView<T, 1> weight, T factor,
                     ConstView<T, 2> dy, Gradient<T, 2> dx, Gradient<T, 1> dweight, Gradient<T, 1> dbias) {
  const Index width = x.width(), grain = 4 * row_grain(width), pieces = (x.rows() + grain - 1) / grain;
  const bool by_element = weight && weight.size() == width;
  const Vec<T> all(weight && !by_element ? weight[0] * factor : factor);
  const auto scratch = arena.scratch();
  const auto sums = arena.allocate<T>(Shape{pieces, Index{2}, width});
  threads.parallel_for(x.rows(), grain, [&](Index begin, Index end) {
    T *const weight_sum = &sums(begin / grain, 0, 0), *const bias_sum = weight_sum + width;
    std::fill_n(weight_sum, 2 * width, T{0});
    for (Index i = begin; i < end; ++i)
      for_vectors<T>(width, [&](Index j, auto n) {
        const Vec<T> gradient = load(dy.row(i) + j, n);
        store(weight_sum + j, fma(gradient, load(x.row(i) + j, n), load(weight_sum + j, n)), n);
        store(bias_sum + j, load(bias_sum + j, n) + gradient, n);
        if (!dx) return;
        const Vec<T> out = gradient * (by_element ? load(weight.data() + j, n) * all : all);
        store(dx.row(i) + j, dx.add ? load(dx.row(i) + j, n) + out : out, n);
      });
  });
  const auto total = [&](int which, Index j) {
    T sum = 0;
    for (Index piece = 0; piece < pieces; ++piece) sum += sums(piece, which, j);
    return sum;
  };
  if (dbias)
    for (Index j = 0; j < width; ++j) dbias.view[j] = (dbias.add ? dbias.view[j] : T{0}) + total(1, j);
  if (!dweight) return;
  if (by_element) {
    for (Index j = 0; j < width; ++j) dweight.view[j] = (dweight.add ? dweight.view[j] : T{0}) + factor * total(0, j);
  } else {
    T sum = 0;
    for (Index j = 0; j < width; ++j) sum += total(0, j);
    dweight.view[0] = (dweight.add ? dweight.view[0] : T{0}) + factor * sum;
  }
}

}  // namespace eigenformer::kernel
