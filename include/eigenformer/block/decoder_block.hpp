// Causal self-attention, attention to the encoder's output, then feed-forward (Vaswani et al. 2017, figure 1 right)
#pragma once

#include "eigenformer/block/post_norm.hpp"
#include "eigenformer/block/residual.hpp"
#include "eigenformer/core/visit.hpp"
#include "eigenformer/layer/attention/attention.hpp"
#include "eigenformer/layer/ffn/mlp.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

template <class ResidualType = PostNorm<float>, class SelfAttention = Attention<typename ResidualType::Scalar>,
          class CrossAttention = Attention<typename ResidualType::Scalar>,
          class FeedForward = Mlp<typename ResidualType::Scalar>>
struct DecoderBlock {
  using Residual = ResidualType;
  using Norm = typename Residual::Norm;
  using T = typename Residual::Scalar;
  static constexpr bool needs_final_norm = Residual::needs_final_norm;

  SelfAttention self_attention;
  Residual self_attention_residual;
  CrossAttention cross_attention;
  Residual cross_attention_residual;
  FeedForward feed_forward;
  Residual feed_forward_residual;

  explicit DecoderBlock(const BlockConfig& config)
      : self_attention(config.attention()), self_attention_residual(config.residual()),
        cross_attention(config.cross_attention()), cross_attention_residual(config.residual()),
        feed_forward(config.feed_forward<FeedForward>()), feed_forward_residual(config.residual()) {}

  static void visit(auto&& f, auto&... m) {
    f("self_attention", m.self_attention...);
    f("self_attention_residual", m.self_attention_residual...);
    f("cross_attention", m.cross_attention...);
    f("cross_attention_residual", m.cross_attention_residual...);
    f("feed_forward", m.feed_forward...);
    f("feed_forward_residual", m.feed_forward_residual...);
  }

  /// x (B, N, D) → (B, N, D); `across` says what the second attention sees, its memory or filled caches
  ConstView<T, 3> operator()(Context& ctx, ConstView<T, 3> x, const AttentionCall<T>& call,
                             const AttentionCall<T>& across) const {
    ensure(across.memory.given() || across.caches, "decoder_block", "no memory is given to attend to");
    const auto y = self_attention_residual(ctx, x, [&](auto z) { return self_attention(ctx, z, call); });
    const auto w = cross_attention_residual(ctx, y, [&](auto z) { return cross_attention(ctx, z, across); });
    return feed_forward_residual(ctx, w, [&](auto z) { return feed_forward(ctx, z); });
  }
  /// x (B, N, D), memory (B, M, D) → (B, N, D)
  ConstView<T, 3> operator()(Context& ctx, ConstView<T, 3> x, ConstView<T, 3> memory,
                             const Mask& self_mask = {.causal = true}, const Mask& memory_mask = {}) const {
    return (*this)(ctx, x, AttentionCall<T>{.mask = self_mask}, {.memory = memory, .mask = memory_mask});
  }
};

}  // namespace eigenformer
