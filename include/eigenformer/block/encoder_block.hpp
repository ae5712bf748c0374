// Self-attention, then feed-forward, each within a residual connection (Vaswani et al. 2017, figure 1 left). With a
// causal mask, the block of decoder-only models.
#pragma once

#include "eigenformer/block/post_norm.hpp"
#include "eigenformer/block/residual.hpp"
#include "eigenformer/core/visit.hpp"
#include "eigenformer/layer/attention/attention.hpp"
#include "eigenformer/layer/ffn/mlp.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

template <class ResidualType = PostNorm<float>, class SelfAttention = Attention<typename ResidualType::Scalar>,
          class FeedForward = Mlp<typename ResidualType::Scalar>>
struct EncoderBlock {
  using Residual = ResidualType;
  using Norm = typename Residual::Norm;
  using T = typename Residual::Scalar;
  static constexpr bool needs_final_norm = Residual::needs_final_norm;

  SelfAttention attention;
  Residual attention_residual;
  FeedForward feed_forward;
  Residual feed_forward_residual;

  explicit EncoderBlock(const BlockConfig& config)
      : attention(config.attention()), attention_residual(config.residual()),
        feed_forward(config.feed_forward<FeedForward>()), feed_forward_residual(config.residual()) {}

  static void visit(auto&& f, auto&... m) {
    f("attention", m.attention...);
    f("attention_residual", m.attention_residual...);
    f("feed_forward", m.feed_forward...);
    f("feed_forward_residual", m.feed_forward_residual...);
  }

  /// x (B, N, D) → (B, N, D)
  ConstView<T, 3> operator()(Context& ctx, ConstView<T, 3> x, const AttentionCall<T>& call) const {
    const auto y = attention_residual(ctx, x, [&](auto z) { return attention(ctx, z, call); });
    return feed_forward_residual(ctx, y, [&](auto z) { return feed_forward(ctx, z); });
  }
  ConstView<T, 3> operator()(Context& ctx, ConstView<T, 3> x, const Mask& mask = {}) const {
    return (*this)(ctx, x, AttentionCall<T>{.mask = mask});
  }
};

}  // namespace eigenformer
