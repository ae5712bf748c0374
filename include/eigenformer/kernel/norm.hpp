// Normalisation over the last axis, alone or of a residual sum:
//   layer norm (Ba, Kiros, Hinton 2016): (x − mean) / √(variance + ε) ∘ weight + bias
//   RMS norm (Zhang and Sennrich 2019):  x / √(mean of x² + ε) ∘ weight
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "eigenformer/core/arena.hpp"
#include "eigenformer/core/gradient.hpp"
#include "eigenformer/core/threads.hpp"
#include "eigenformer/core/view.hpp"
#include "eigenformer/kernel/dropout.hpp"
#include "eigenformer/kernel/row.hpp"
#include "eigenformer/kernel/simd.hpp"

namespace eigenformer::inline EIGENFORMER_ABI::kernel {

enum class NormKind { layer, rms };

/// What the forward pass keeps of a row: its mean as an unevaluated sum (0 for an RMS norm), and 1/√(… + ε), or 0 for
/// 1/√0.
template <class T>
struct RowStatistics {
  T mean, mean_rest, scale;

  /// (x − mean)·scale, exact to rounding even when the mean is large against the spread.
  template <NormKind Kind>
  Vec<T> normalized(Vec<T> x) const {
    if constexpr (Kind == NormKind::layer) x = (x - Vec<T>(mean)) - Vec<T>(mean_rest);
    return x * Vec<T>(scale);
  }
};

/// 1/√x, and 0 for 0: a row of zeros without an ε becomes zeros, and so does its gradient.
template <class T>
T inverse_root(T x) {
  return x == 0 ? T{0} : 1 / std::sqrt(x);
}

/// Mean and variance by the corrected two-pass method (Chan, Golub, LeVeque 1983); or the mean square.
template <NormKind Kind, class T>
RowStatistics<T> row_statistics(const T* x, Index width, double epsilon) {
  if (width == 0) return {0, 0, 0};
  const T count = static_cast<T>(width);
  if constexpr (Kind == NormKind::rms) {
    const T square = sum_vectors<T>(width, [&](Index j, auto n) {
      const Vec<T> at = load(x + j, n);
      return at * at;
    });
    return {0, 0, inverse_root(square / count + static_cast<T>(epsilon))};
  } else {
    const T mean = sum_vectors<T>(width, [&](Index j, auto n) { return load(x + j, n); }) / count;
    const auto [first, second] = sum_vectors<T, 2>(width, [&](Index j, auto n) {
      const Vec<T> centred = load(x + j, n, mean) - Vec<T>(mean);
      return std::array{centred, centred * centred};
    });
    const T rest = first / count, variance = (std::max)(second / count - rest * rest, T{0});
    return {mean, rest, inverse_root(variance + static_cast<T>(epsilon))};
  }
}

/// Learned factors and summands (D), either may be null; `offset` is added to the factors (1 for Gemma's 1 + γ).
template <class T>
struct Affine {
  ConstView<T, 1> weight{}, bias{};
  T offset = 0;

  Vec<T> factor(Index j, auto n) const { return load(weight.data() + j, n) + Vec<T>(offset); }
  Vec<T> apply(Vec<T> x, Index j, auto n) const {
    if (weight) x = x * factor(j, n);
    return bias ? x + load(bias.data() + j, n) : x;
  }
};

/// What is normalised: x, or the sum x + dropout(update) if there is an update.
template <class T>
struct NormInput {
  ConstView<T, 2> x, update{};
  Dropout dropout{};
};

/// y ← norm(in), all (R, D); statistics (R) for the backward pass. The sum, if it is one, is kept in `sum` unless that
/// is null.
template <NormKind Kind, class T>
void norm_forward(const Threads& threads, const NormInput<T>& in, const Affine<T>& affine, double epsilon, View<T, 2> y,
                  View<RowStatistics<T>, 1> statistics, View<T, 2> sum = {}) {
  const Index width = in.x.width();
  threads.parallel_for(in.x.rows(), row_grain(width), [&](Index begin, Index end) {
    constexpr Index longest = 4096;
    T local[static_cast<std::size_t>(longest)];  // a sum that nobody keeps: the first-level cache is faster than y
    for (Index i = begin; i < end; ++i) {
      const T* row = in.x.row(i);
      if (in.update) {
        T* const total = sum ? sum.row(i) : width <= longest ? local : y.row(i);
        const T *const x = row, *const update = in.update.row(i);
        if (in.dropout)
          in.dropout.template for_row<T>(i, width, [&](Index j, auto n, Vec<T> factor) {
            store(total + j, load(x + j, n) + surviving(load(update + j, n), factor), n);
          });
        else for_vectors<T>(width, [&](Index j, auto n) { store(total + j, load(x + j, n) + load(update + j, n), n); });
        row = total;
      }
      const RowStatistics<T> at = statistics[i] = row_statistics<Kind>(row, width, epsilon);
      T* const out = y.row(i);
      for_vectors<T>(width, [&](Index j, auto n) {
        store(out + j, affine.apply(at.template normalized<Kind>(load(row + j, n)), j, n), n);
      });
    }
  });
}

/// dx ← dL/dx of the rows x that were normalised, given dy; likewise of weight and bias.
template <NormKind Kind, class T>
void norm_backward(const Threads& threads, Arena& arena, ConstView<T, 2> x, const Affine<T>& affine,
                   View<RowStatistics<T>, 1> statistics, ConstView<T, 2> dy, Gradient<T, 2> dx, Gradient<T, 1> dweight,
                   Gradient<T, 1> dbias) {
  const Index width = x.width(), grain = 4 * row_grain(width), pieces = (x.rows() + grain - 1) / grain;
  const T count = static_cast<T>(width);
  const auto scratch = arena.scratch();
  const auto sums = arena.allocate<T>(Shape{pieces, Index{2}, width});  // of weight and bias, a row per piece
  threads.parallel_for(x.rows(), grain, [&](Index begin, Index end) {
    T *const weight_sum = &sums(begin / grain, 0, 0), *const bias_sum = weight_sum + width;
    std::fill_n(weight_sum, 2 * width, T{0});
    for (Index i = begin; i < end; ++i) {
      const RowStatistics<T> row = statistics[i];
      const T *const in = x.row(i), *const dout = dy.row(i);
      const auto normal = [&](Index j, auto n) { return row.template normalized<Kind>(load(in + j, n, row.mean)); };
      const auto gradient = [&](Index j, auto n) {
        const Vec<T> out = load(dout + j, n);
        return affine.weight ? out * affine.factor(j, n) : out;
      };
      const auto collect = [&](Index j, auto n, Vec<T> at) {
        const Vec<T> out = load(dout + j, n);
        if (dweight) store(weight_sum + j, fma(out, at, load(weight_sum + j, n)), n);
        if (dbias) store(bias_sum + j, load(bias_sum + j, n) + out, n);
      };
      if (!dx) {
        for_vectors<T>(width, [&](Index j, auto n) { collect(j, n, normal(j, n)); });
        continue;
      }
      const auto [total, row_dot] = sum_vectors<T, 2>(width, [&](Index j, auto n) {
        const Vec<T> s = gradient(j, n), at = normal(j, n);
        collect(j, n, at);
        return std::array{s, s * at};
      });
      const Vec<T> mean_gradient(Kind == NormKind::layer ? total / count : T{0}), mean_row_dot(row_dot / count);
      T* const to = dx.row(i);
      for_vectors<T>(width, [&](Index j, auto n) {
        Vec<T> out = gradient(j, n) - normal(j, n) * mean_row_dot;
        if constexpr (Kind == NormKind::layer) out = out - mean_gradient;
        out = out * Vec<T>(row.scale);
        store(to + j, dx.add ? load(to + j, n) + out : out, n);
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

}  // namespace eigenformer::kernel
