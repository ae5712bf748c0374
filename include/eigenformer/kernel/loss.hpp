// Cross-entropy with label smoothing, straight from the logits.
#pragma once

#include <algorithm>

#include "eigenformer/core/arena.hpp"
#include "eigenformer/core/gradient.hpp"
#include "eigenformer/core/threads.hpp"
#include "eigenformer/core/view.hpp"
#include "eigenformer/kernel/row.hpp"
#include "eigenformer/kernel/simd.hpp"
#include "eigenformer/kernel/softmax.hpp"

namespace eigenformer::inline EIGENFORMER_ABI::kernel {

/// Σ over rows of −Σ_v q(v) log p(v), p = softmax(logits (R, V)), q = (1 − ε)·[v = target] + ε/V. Rows whose target (R)
/// is `ignore` count nothing. `totals` (R) is kept for the backward pass.
template <class T>
double cross_entropy_forward(const Threads& threads, Arena& arena, ConstView<T, 2> logits, ConstView<Id, 1> targets,
                             Id ignore, double smoothing, View<SoftmaxSum<T>, 1> totals) {
  const Index rows = logits.rows(), width = logits.width();
  const auto losses = arena.allocate<double>(Shape{rows});
  threads.parallel_for(rows, row_grain(width), [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      losses[i] = 0;
      if (targets[i] == ignore) continue;
      const T* const row = logits.row(i);
      const T reference = row[targets[i]];
      totals[i] = softmax_sum(row, width, [](auto...) {});
      const double at_target = static_cast<double>(reference);
      const double mean =
          smoothing > 0
              ? static_cast<double>(sum_vectors<T>(
                    width, [&](Index j, auto n) { return load(row + j, n, reference) - Vec<T>(reference); })) /
                    static_cast<double>(width)
              : 0;
      losses[i] = totals[i].log_sum_exp() - at_target - smoothing * mean;
    }
  });
  double sum = 0;
  for (Index i = 0; i < rows; ++i) sum += losses[i];
  return sum;
}

/// dlogits ← dloss · (p − q)
template <class T>
void cross_entropy_backward(const Threads& threads, ConstView<T, 2> logits, ConstView<Id, 1> targets, Id ignore,
                            double smoothing, ConstView<SoftmaxSum<T>, 1> totals, double dloss,
                            Gradient<T, 2> dlogits) {
  if (!dlogits) return;
  const Index width = logits.width();
  const T everywhere = static_cast<T>(smoothing / static_cast<double>(width)),
          at_target = static_cast<T>(1 - smoothing);
  const T scale = static_cast<T>(dloss);
  threads.parallel_for(logits.rows(), row_grain(width), [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      T* const out = dlogits.row(i);
      if (targets[i] == ignore) {
        if (!dlogits.add) std::fill_n(out, width, T{0});
        continue;
      }
      const T* const row = logits.row(i);
      const SoftmaxSum<T> total = totals[i];
      for_vec_packs<T>(width, [&](Index j, auto count) {
        auto gradient = total.probability(load(row + j, count));
        using V = decltype(gradient);
        gradient = (gradient - V(everywhere)) * V(scale);
        store(out + j, dlogits.add ? load(out + j, count) + gradient : gradient, count);
      });
      out[targets[i]] -= scale * at_target;
    }
  });
}

}  // namespace eigenformer::kernel
