// Causal self-attention, attention to the encoder's output, then feed-forward (Vaswani et al. 2017, figure 1 right)
#pragma once

#include "eigenformer/block/config.hpp"
#include "eigenformer/block/post_norm.hpp"
#include "eigenformer/core/visit.hpp"
#include "eigenformer/layer/attention/attention.hpp"
#include "eigenformer/layer/ffn/mlp.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

template <class SelfAttentionConfig, class CrossAttentionConfig, class FeedForwardConfig, class ResidualConfig>
struct DecoderBlockConfig {
  Index width = 512;   ///< D
  Index hidden = 0;    ///< F; 0: as the feed-forward network says, 4·D or its gated equivalent
  Index heads = 0;     ///< H; 0: as the attention says, 8
  double dropout = 0;  ///< on sublayer outputs and on attention weights
  SelfAttentionConfig self_attention{};
  CrossAttentionConfig cross_attention{};  ///< to another sequence, where a window has no meaning
  FeedForwardConfig feed_forward{};
  ResidualConfig residual{};

  /// With everything filled in; throws if a setting is invalid.
  DecoderBlockConfig completed() const {
    DecoderBlockConfig config = *this;
    const SharedSettings shared = detail::shared_by(*this);
    config.self_attention = inherit("decoder_block", self_attention, shared);
    config.cross_attention = inherit("decoder_block", cross_attention, shared);
    config.feed_forward = inherit("decoder_block", feed_forward, shared);
    config.residual = inherit("decoder_block", residual, shared);
    detail::update_sizes("decoder_block", config, config.self_attention);
    if constexpr (requires { cross_attention.window; })
      ensure(cross_attention.window == 0, "decoder_block", "a window has no meaning across");
    return config;
  }
  /// Of the norm at the end of a stack, if this is completed.
  const auto& end_norm() const { return residual.norm; }

  static void fields(auto&& f, auto&... c) {
    detail::block_fields(f, c...);
    f("self_attention", c.self_attention...);
    f("cross_attention", c.cross_attention...);
    f("feed_forward", c.feed_forward...);
    f("residual", c.residual...);
  }
  friend bool operator==(const DecoderBlockConfig&, const DecoderBlockConfig&) = default;
};

template <class ResidualType = PostNorm<float>, class SelfAttention = Attention<typename ResidualType::Scalar>,
          class CrossAttention = Attention<typename ResidualType::Scalar>,
          class FeedForward = Mlp<typename ResidualType::Scalar>>
struct DecoderBlock {
  using Residual = ResidualType;
  using Norm = typename Residual::Norm;
  using T = typename Residual::Scalar;
  using Config = DecoderBlockConfig<typename SelfAttention::Config, typename CrossAttention::Config,
                                    typename FeedForward::Config, typename Residual::Config>;
  static constexpr bool needs_final_norm = Residual::needs_final_norm;

  SelfAttention self_attention;
  Residual self_attention_residual;
  CrossAttention cross_attention;
  Residual cross_attention_residual;
  FeedForward feed_forward;
  Residual feed_forward_residual;

  explicit DecoderBlock(const Config& config)
      : self_attention(config.completed().self_attention), self_attention_residual(config.completed().residual),
        cross_attention(config.completed().cross_attention), cross_attention_residual(config.completed().residual),
        feed_forward(config.completed().feed_forward), feed_forward_residual(config.completed().residual) {}

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
