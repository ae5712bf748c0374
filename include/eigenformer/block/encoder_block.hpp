// Self-attention, then feed-forward, each within a residual connection (Vaswani et al. 2017, figure 1 left). With a
// causal mask, the block of decoder-only models.
#pragma once

#include "eigenformer/block/config.hpp"
#include "eigenformer/block/post_norm.hpp"
#include "eigenformer/core/visit.hpp"
#include "eigenformer/layer/attention/attention.hpp"
#include "eigenformer/layer/ffn/mlp.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

template <class AttentionConfig, class FeedForwardConfig, class ResidualConfig>
struct EncoderBlockConfig {
  Index width = 512;   ///< D
  Index hidden = 0;    ///< F; 0: as the feed-forward network says, 4·D or its gated equivalent
  Index heads = 0;     ///< H; 0: as the attention says, 8
  double dropout = 0;  ///< on sublayer outputs and on attention weights
  AttentionConfig attention{};
  FeedForwardConfig feed_forward{};
  ResidualConfig residual{};

  /// With everything filled in; throws if a setting is invalid.
  EncoderBlockConfig completed() const {
    EncoderBlockConfig config = *this;
    const SharedSettings shared = detail::shared_by(*this);
    config.attention = inherit("encoder_block", attention, shared);
    config.feed_forward = inherit("encoder_block", feed_forward, shared);
    config.residual = inherit("encoder_block", residual, shared);
    detail::update_sizes("encoder_block", config, config.attention);
    return config;
  }
  /// Of the norm at the end of a stack, if this is completed.
  const auto& end_norm() const { return residual.norm; }

  static void fields(auto&& f, auto&... c) {
    detail::block_fields(f, c...);
    f("attention", c.attention...);
    f("feed_forward", c.feed_forward...);
    f("residual", c.residual...);
  }
  friend bool operator==(const EncoderBlockConfig&, const EncoderBlockConfig&) = default;
};

template <class ResidualType = PostNorm<float>, class SelfAttention = Attention<typename ResidualType::Scalar>,
          class FeedForward = Mlp<typename ResidualType::Scalar>>
struct EncoderBlock {
  using Residual = ResidualType;
  using Norm = typename Residual::Norm;
  using T = typename Residual::Scalar;
  using Config =
      EncoderBlockConfig<typename SelfAttention::Config, typename FeedForward::Config, typename Residual::Config>;
  static constexpr bool needs_final_norm = Residual::needs_final_norm;

  SelfAttention attention;
  Residual attention_residual;
  FeedForward feed_forward;
  Residual feed_forward_residual;

  explicit EncoderBlock(const Config& config)
      : attention(config.completed().attention), attention_residual(config.completed().residual),
        feed_forward(config.completed().feed_forward), feed_forward_residual(config.completed().residual) {}

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
