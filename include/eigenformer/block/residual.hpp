// What the wrappers of the residual stream (PostNorm, PreNorm, …) and the blocks have in common.
#pragma once

#include <optional>

#include "eigenformer/core/settings.hpp"
#include "eigenformer/layer/attention/attention.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

struct ResidualConfig {
  Index width = 512;
  double dropout = 0;                    ///< on the sublayer's output
  std::optional<double> norm_epsilon{};  ///< none: the norm's default
  bool norm_bias = true;                 ///< where the norm can have one
  double alpha = 1;                      ///< of DeepNorm

  /// Itself; throws if a setting is invalid.
  const ResidualConfig& checked() const {
    require_range("residual", "width", width, 1);
    require_range("residual", "dropout", dropout, 0, 1);
    require_range("residual", "alpha", alpha, smallest_real);
    return *this;
  }
  template <class Norm>
  typename Norm::Config norm() const {
    typename Norm::Config config{.width = width};
    if constexpr (requires { config.epsilon; }) config.epsilon = norm_epsilon.value_or(config.epsilon);
    if constexpr (requires { config.bias; }) config.bias = norm_bias;
    return config;
  }
};

/// Sizes of a block; the defaults are those of the paper's base model, without dropout.
struct BlockConfig {
  Index width = 512;                  ///< D
  Index hidden = 0;                   ///< F; 0: as the feed-forward network's config says, 4·D or its gated equivalent
  Index heads = 8;                    ///< H
  Index head_width = 0;               ///< E; 0: D/H
  double dropout = 0;                 ///< on sublayer outputs and on attention weights
  Index kv_heads = 0;                 ///< K; 0: H
  bool attention_bias = true;         ///< on the projections of queries, keys and values
  std::optional<bool> output_bias{};  ///< on attention's last projection; none: as the others
  std::optional<bool> feed_forward_bias{};  ///< none: the network's default
  std::optional<double> norm_epsilon{};     ///< none: the norm's default
  bool norm_bias = true;                    ///< where the norm can have one
  std::optional<double> scale{};            ///< of the scores; none: 1/√E
  Index window = 0;                         ///< of self-attention, in tokens; 0: none
  double cap = 0;                           ///< of the scores, for CappedScores
  double alpha = 1;                         ///< of DeepNorm

  AttentionConfig attention() const {
    return {.width = width,
            .heads = heads,
            .kv_heads = kv_heads,
            .head_width = head_width,
            .bias = attention_bias,
            .output_bias = output_bias,
            .dropout = dropout,
            .scale = scale,
            .window = window,
            .cap = cap,
            .epsilon = norm_epsilon.value_or(1e-6)};
  }
  /// Of attention to another sequence, where a window has no meaning.
  AttentionConfig cross_attention() const {
    AttentionConfig config = attention();
    config.window = 0;
    return config;
  }
  template <class FeedForward>
  auto feed_forward() const {
    typename FeedForward::Config config{.width = width, .hidden = hidden};
    config.bias = feed_forward_bias.value_or(config.bias);
    return config;
  }
  ResidualConfig residual() const { return {width, dropout, norm_epsilon, norm_bias, alpha}; }
  friend bool operator==(const BlockConfig&, const BlockConfig&) = default;
};

}  // namespace eigenformer
