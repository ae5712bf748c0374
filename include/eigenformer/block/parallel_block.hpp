// x + dropout(attention(norm(x)) + feed_forward(norm(x))): both at once, from one norm (GPT-J; Chowdhery et al. 2022)
#pragma once

#include "eigenformer/block/residual.hpp"
#include "eigenformer/core/visit.hpp"
#include "eigenformer/layer/attention/attention.hpp"
#include "eigenformer/layer/ffn/mlp.hpp"
#include "eigenformer/layer/norm/layer_norm.hpp"
#include "eigenformer/op/dropout.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

template <Real T_ = float, class NormType = LayerNorm<T_>, class SelfAttention = Attention<T_>,
          class FeedForward = Mlp<T_>>
struct ParallelBlock {
  using T = T_;
  using Norm = NormType;
  static constexpr bool needs_final_norm = true;

  Norm norm;  // (D)
  SelfAttention attention;
  FeedForward feed_forward;
  double dropout;

  explicit ParallelBlock(const BlockConfig& config)
      : norm(config.residual().checked().template norm<Norm>()), attention(config.attention()),
        feed_forward(config.feed_forward<FeedForward>()), dropout(config.dropout) {}

  static void visit(auto&& f, auto&... m) {
    f("norm", m.norm...);
    f("attention", m.attention...);
    f("feed_forward", m.feed_forward...);
  }

  /// x (B, N, D) → (B, N, D)
  ConstView<T, 3> operator()(Context& ctx, ConstView<T, 3> x, const AttentionCall<T>& call) const {
    const auto z = norm(ctx, x);
    return op::residual(ctx, op::residual(ctx, x, attention(ctx, z, call), dropout), feed_forward(ctx, z), dropout);
  }
};

}  // namespace eigenformer
