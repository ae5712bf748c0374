// Layer normalisation (Ba, Kiros, Hinton 2016): y = (x − mean) / √(variance + ε) ∘ weight + bias, over the last axis.
#pragma once

#include <cmath>

#include "eigenformer/core/arena.hpp"
#include "eigenformer/core/gradient.hpp"
#include "eigenformer/core/threads.hpp"
#include "eigenformer/core/view.hpp"
#include "eigenformer/kernel/row.hpp"

namespace eigenformer::kernel {

/// What the forward pass keeps of a row: its mean as an unevaluated sum, and 1/√(variance + ε).
template <class T>
struct RowStatistics {
  T mean, mean_rest, scale;

  /// (x − mean)·scale, exact to rounding even when the mean is large against the spread.
  auto normalized(const auto& x) const { return ((x - mean) - mean_rest) * scale; }
};

/// Mean and variance by the corrected two-pass method (Chan, Golub, LeVeque 1983).
template <class T>
RowStatistics<T> row_statistics(ConstRowMap<T> x, double epsilon) {
  if (x.size() == 0) return {0, 0, 0};
  const T count = static_cast<T>(x.size()), mean = row_sum(x) / count, rest = (x - mean).sum() / count;
  const T variance = ((x - mean) - rest).square().sum() / count;
  return {mean, rest, 1 / std::sqrt(variance + static_cast<T>(epsilon))};
}

/// x, y (R, D); weight, bias (D), either may be null; statistics (R) is filled for the backward pass.
template <class T>
void layer_norm_forward(const Threads& threads, ConstView<T, 2> x, ConstView<T, 1> weight, ConstView<T, 1> bias, double epsilon,
                        View<T, 2> y, View<RowStatistics<T>, 1> statistics) {
  const Index width = x.width();
  threads.parallel_for(x.rows(), row_grain(width), [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      const auto in = row_map(x.row(i), width);
      auto out = row_map(y.row(i), width);
      statistics[i] = row_statistics<T>(in, epsilon);
      out = statistics[i].normalized(in);
      if (weight) out *= row_map(weight.data(), width);
      if (bias) out += row_map(bias.data(), width);
    }
  });
}

template <class T>
void layer_norm_backward(const Threads& threads, Arena& arena, ConstView<T, 2> x, ConstView<T, 1> weight,
                         View<RowStatistics<T>, 1> statistics, ConstView<T, 2> dy, Gradient<T, 2> dx, Gradient<T, 1> dweight,
                         Gradient<T, 1> dbias) {
  const Index width = x.width(), grain = row_grain(width), pieces = (x.rows() + grain - 1) / grain;
  const T count = static_cast<T>(width);
  const auto sums = arena.allocate<T>(Shape{pieces, Index{2}, width});  // of weight and bias, a row per piece
  const auto scratch = arena.allocate<T>(Shape{Index{threads.count()}, Index{2}, width});
  threads.parallel_for(x.rows(), grain, [&](Index begin, Index end, int slot) {
    auto weight_sum = row_map(&sums(begin / grain, 0, 0), width), bias_sum = row_map(&sums(begin / grain, 1, 0), width);
    auto normal = row_map(&scratch(slot, 0, 0), width), slope = row_map(&scratch(slot, 1, 0), width);
    weight_sum.setZero();
    bias_sum.setZero();
    for (Index i = begin; i < end; ++i) {
      const auto dout = row_map(dy.row(i), width);
      normal = statistics[i].normalized(row_map(x.row(i), width));
      weight_sum += dout * normal;
      bias_sum += dout;
      if (!dx) continue;
      if (weight) slope = dout * row_map(weight.data(), width);
      else slope = dout;
      const T mean = row_sum(slope) / count, along = (slope * normal).sum() / count;
      dx.put(row_map(dx.row(i), width), (slope - mean - normal * along) * statistics[i].scale);
    }
  });
  const auto merge = [&](Gradient<T, 1> total, int which) {
    if (!total) return;
    auto out = row_map(total.view.data(), width);
    if (!total.add) out.setZero();
    for (Index piece = 0; piece < pieces; ++piece) out += row_map(&sums(piece, which, 0), width);
  };
  merge(dweight, 0);
  merge(dbias, 1);
}

}  // namespace eigenformer::kernel
