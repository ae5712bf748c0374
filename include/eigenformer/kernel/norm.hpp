// Layer normalisation (Ba, Kiros, Hinton 2016): y = (x − mean) / √(variance + ε) ∘ weight + bias, over the last axis.
#pragma once

#include <algorithm>
#include <cmath>

#include "eigenformer/core/arena.hpp"
#include "eigenformer/core/gradient.hpp"
#include "eigenformer/core/threads.hpp"
#include "eigenformer/core/view.hpp"
#include "eigenformer/kernel/row.hpp"
#include "eigenformer/kernel/simd.hpp"

namespace eigenformer::kernel::inline EIGENFORMER_SIMD {

/// What the forward pass keeps of a row: its mean as an unevaluated sum, and 1/√(variance + ε).
template <class T>
struct RowStatistics {
  T mean, mean_rest, scale;

  /// (x − mean)·scale, exact to rounding even when the mean is large against the spread.
  Vec<T> normalized(Vec<T> x) const { return ((x - Vec<T>(mean)) - Vec<T>(mean_rest)) * Vec<T>(scale); }
};

/// Mean and variance by the corrected two-pass method (Chan, Golub, LeVeque 1983).
template <class T>
RowStatistics<T> row_statistics(const T* x, Index width, double epsilon) {
  if (width == 0) return {0, 0, 0};
  const T count = static_cast<T>(width), mean = sum_vectors<T>(width, [&](Index j, auto n) { return load(x + j, n); }) / count;
  const auto [first, second] = sum_vectors<T, 2>(width, [&](Index j, auto n) {
    const Vec<T> centred = load(x + j, n, mean) - Vec<T>(mean);
    return std::array{centred, centred * centred};
  });
  const T rest = first / count, variance = (std::max)(second / count - rest * rest, T{0});
  return {mean, rest, 1 / std::sqrt(variance + static_cast<T>(epsilon))};
}

/// x, y (R, D); weight, bias (D), either may be null; statistics (R) is filled for the backward pass.
template <class T>
void layer_norm_forward(const Threads& threads, ConstView<T, 2> x, ConstView<T, 1> weight, ConstView<T, 1> bias, double epsilon,
                        View<T, 2> y, View<RowStatistics<T>, 1> statistics) {
  const Index width = x.width();
  threads.parallel_for(x.rows(), row_grain(width), [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      const RowStatistics<T> row = statistics[i] = row_statistics(x.row(i), width, epsilon);
      for_vectors<T>(width, [&](Index j, auto n) {
        Vec<T> out = row.normalized(load(x.row(i) + j, n));
        if (weight) out = out * load(weight.data() + j, n);
        if (bias) out = out + load(bias.data() + j, n);
        store(y.row(i) + j, out, n);
      });
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
  threads.parallel_for(x.rows(), grain, [&](Index begin, Index end) {
    T *const weight_sum = &sums(begin / grain, 0, 0), *const bias_sum = weight_sum + width;
    std::fill_n(weight_sum, 2 * width, T{0});
    for (Index i = begin; i < end; ++i) {
      const RowStatistics<T> row = statistics[i];
      const auto normal = [&](Index j, auto n) { return row.normalized(load(x.row(i) + j, n, row.mean)); };
      const auto slope = [&](Index j, auto n) {
        const Vec<T> out = load(dy.row(i) + j, n);
        return weight ? out * load(weight.data() + j, n) : out;
      };
      for_vectors<T>(width, [&](Index j, auto n) {
        const Vec<T> out = load(dy.row(i) + j, n);
        store(weight_sum + j, fma(out, normal(j, n), load(weight_sum + j, n)), n);
        store(bias_sum + j, load(bias_sum + j, n) + out, n);
      });
      if (!dx) continue;
      const auto [total, along] = sum_vectors<T, 2>(width, [&](Index j, auto n) {
        const Vec<T> s = slope(j, n);
        return std::array{s, s * normal(j, n)};
      });
      const Vec<T> mean_slope(total / count), mean_along(along / count);
      for_vectors<T>(width, [&](Index j, auto n) {
        const Vec<T> out = (slope(j, n) - mean_slope - normal(j, n) * mean_along) * Vec<T>(row.scale);
        store(dx.row(i) + j, dx.add ? load(dx.row(i) + j, n) + out : out, n);
      });
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

}  // namespace eigenformer::kernel::inline EIGENFORMER_SIMD
