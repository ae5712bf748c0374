// x + dropout(attention(norm(x)) + feed_forward(norm(x))): both at once, from one norm (GPT-J; Chowdhery et al. 2022)
#pragma once

#include "eigenformer/block/config.hpp"
#include "eigenformer/core/visit.hpp"
#include "eigenformer/layer/attention/attention.hpp"
#include "eigenformer/layer/ffn/mlp.hpp"
#include "eigenformer/layer/norm/layer_norm.hpp"
#include "eigenformer/op/dropout.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

template <class AttentionConfig, class FeedForwardConfig, class NormConfig>
struct ParallelBlockConfig {
  Index width = 512;   ///< D
  Index hidden = 0;    ///< F; 0: as the feed-forward network says, 4·D or its gated equivalent
  Index heads = 0;     ///< H; 0: as the attention says, 8
  double dropout = 0;  ///< on sublayer outputs and on attention weights
  AttentionConfig attention{};
  FeedForwardConfig feed_forward{};
  NormConfig norm{};

  /// With everything filled in; throws if a setting is invalid.
  ParallelBlockConfig completed() const {
    ParallelBlockConfig config = *this;
    const SharedSettings shared = detail::shared_by(*this);
    config.attention = inherit("parallel_block", attention, shared);
    config.feed_forward = inherit("parallel_block", feed_forward, shared);
    config.norm = inherit("parallel_block", norm, shared);
    detail::update_sizes("parallel_block", config, config.attention);
    return config;
  }
  /// Of the norm at the end of a stack, if this is completed.
  const auto& end_norm() const { return norm; }

  static void fields(auto&& f, auto&... c) {
    detail::block_fields(f, c...);
    f("attention", c.attention...);
    f("feed_forward", c.feed_forward...);
    f("norm", c.norm...);
  }
  friend bool operator==(const ParallelBlockConfig&, const ParallelBlockConfig&) = default;
};

template <Real T_ = float, class NormType = LayerNorm<T_>, class SelfAttention = Attention<T_>,
          class FeedForward = Mlp<T_>>
struct ParallelBlock {
  using T = T_;
  using Norm = NormType;
  using Config =
      ParallelBlockConfig<typename SelfAttention::Config, typename FeedForward::Config, typename Norm::Config>;
  static constexpr bool needs_final_norm = true;

  Norm norm;  // (D)
  SelfAttention attention;
  FeedForward feed_forward;
  Fixed<double> dropout;

  explicit ParallelBlock(const Config& config)
      : norm(config.completed().norm), attention(config.completed().attention),
        feed_forward(config.completed().feed_forward), dropout(config.dropout) {}

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
