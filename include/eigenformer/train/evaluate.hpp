// How well a model does on given data.
#pragma once

#include <cmath>

#include "eigenformer/core/context.hpp"
#include "eigenformer/kernel/row.hpp"
#include "eigenformer/op/cross_entropy.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

/// Over all targets that count.
struct Evaluation {
  double loss = 0;      ///< mean per token, in nats; 0 without tokens
  double accuracy = 0;  ///< share of tokens whose most probable class is the target; of equals the first counts
  Index tokens = 0;

  double perplexity() const { return std::exp(loss); }
};

namespace detail {

/// Adds the sum of the losses, the number of right guesses and that of tokens.
template <class T>
void add_evaluation(Context& ctx, ConstView<T, 3> logits, ConstView<Id, 2> targets, Id ignore, Evaluation& sums) {
  const Loss loss = op::cross_entropy(ctx, logits, targets, {.ignore = ignore});
  sums.loss += loss.sum[0];
  sums.tokens += loss.tokens;
  for (Index b = 0; b < targets.extent(0); ++b)
    for (Index n = 0; n < targets.extent(1); ++n) {
      if (targets(b, n) == ignore) continue;
      Index best = 0;
      kernel::row_map(&logits(b, n, 0), logits.width()).maxCoeff(&best);
      sums.accuracy += best == targets(b, n);
    }
}

}  // namespace detail

/// predict(ctx, model, batch) returns a pair: logits (B, N, V), and targets (B, N) in [0, V) or `ignore`. The context
/// neither records nor drops out; its memory is as before when this returns.
template <class Model, class Batches, class F>
Evaluation evaluate(Context& ctx, const Model& model, const Batches& batches, F&& predict, Id ignore = -100) {
  ensure(!ctx.tape && !ctx.random, "evaluate",
         "evaluation is neither recorded nor with dropout: it needs a context of its own");
  Evaluation result;
  for (const auto& batch : batches) {
    const auto memory = ctx.scratch();
    const auto [logits, targets] = predict(ctx, model, batch);
    detail::add_evaluation(ctx, logits, ConstView<Id, 2>(targets), ignore, result);
  }
  if (result.tokens > 0) {
    result.loss /= static_cast<double>(result.tokens);
    result.accuracy /= static_cast<double>(result.tokens);
  }
  return result;
}

}  // namespace eigenformer
