// Cross-entropy with label smoothing (Szegedy et al. 2016, section 7), straight from the logits.
#pragma once

#include "eigenformer/core/context.hpp"
#include "eigenformer/kernel/loss.hpp"
#include "eigenformer/op/embedding.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

/// Smoothing mixes the target with the uniform distribution over all V classes, the target included: ε/V each. That is
/// the definition the Transformer paper cites and PyTorch's; tensor2tensor's ε/(V−1) over the others is another one.
struct CrossEntropyConfig {
  double smoothing = 0;  ///< ε in [0, 1)
  Id ignore = -100;      ///< a target that counts nothing, e.g. the padding id
};

/// A sum over tokens and their number. The mean over several batches is Σ sum / Σ tokens, which is why it is not
/// divided yet.
struct Loss {
  ConstView<double, 1> sum;  // (1)
  Index tokens = 0;

  /// 0 without tokens.
  double mean() const { return tokens > 0 ? sum[0] / static_cast<double>(tokens) : 0; }
};

namespace op {

/// logits (B, N, V), targets (B, N) in [0, V) or `ignore`
template <class T>
Loss cross_entropy(Context& ctx, ConstView<T, 3> logits, ConstView<Id, 2> targets,
                   const CrossEntropyConfig& config = {}) {
  ensure(targets.given(), "cross_entropy", "no targets are given");
  ensure(logits.extent(0) == targets.extent(0) && logits.extent(1) == targets.extent(1), "cross_entropy", "targets ",
         targets.shape(), " do not fit logits ", logits.shape());
  ensure(config.smoothing >= 0 && config.smoothing < 1, "cross_entropy", "smoothing ", config.smoothing,
         " is not in [0, 1)");
  Index tokens = 0;
  for (Index i = 0; i < targets.extent(0); ++i)
    for (Index j = 0; j < targets.extent(1); ++j) {
      const Id target = targets(i, j);
      if (target == config.ignore) continue;
      ensure(target >= 0 && target < logits.width(), "cross_entropy", "target ", target, " in row ", i, ", column ", j,
             " of ", targets.shape(), " is neither a class of 0…", logits.width() - 1, " nor the ignored ",
             config.ignore);
      ++tokens;
    }
  const auto flat = ctx.save_for_backward(targets).reshape(Shape{targets.size()});
  const View<double, 1> sum = ctx.output<double>(Shape{Index{1}});
  const auto totals = ctx.arena.allocate<kernel::SoftmaxSum<T>>(Shape{flat.size()});
  {
    const auto scratch = ctx.scratch();
    sum[0] = kernel::cross_entropy_forward<T>(ctx.threads, ctx.arena, logits.flat(), flat, config.ignore,
                                              config.smoothing, totals);
  }
  ctx.record(sum, [=](Context& back, ConstView<double, 1> dsum) {
    kernel::cross_entropy_backward<T>(back.threads, logits.flat(), flat, config.ignore, config.smoothing, totals,
                                      dsum[0], back.gradient(logits).flat());
  });
  return {sum, tokens};
}

}  // namespace op
}  // namespace eigenformer
