// Sizes of attention, and what a call attends to.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <span>

#include "eigenformer/core/config.hpp"
#include "eigenformer/core/context.hpp"
#include "eigenformer/core/settings.hpp"
#include "eigenformer/kernel/mask.hpp"
#include "eigenformer/layer/attention/kv_cache.hpp"
#include "eigenformer/op/relative.hpp"
#include "eigenformer/op/rotary.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

namespace detail {

/// What all kinds of attention have in common, filled in; throws if a setting is invalid.
template <class Config>
Config completed_projections(Config config) {
  config.width = config.width.value_or(512);
  config.heads = config.heads.value_or(8);
  config.dropout = config.dropout.value_or(0);
  const Index width = *config.width, heads = *config.heads;
  require_range("attention", "width", width, 1);
  require_range("attention", "heads", heads, 1);
  require_range("attention", "kv_heads", config.kv_heads, 0);
  require_range("attention", "head_width", config.head_width, 0, largest_extent / heads);
  require_range("attention", "dropout", *config.dropout, 0, 1);
  if (config.scale) require_range("attention", "scale", *config.scale, smallest_real);
  if (config.head_width == 0) {
    ensure(width % heads == 0, "attention", heads, " heads do not divide model width ", width);
    config.head_width = width / heads;
  }
  if (config.kv_heads == 0) config.kv_heads = heads;
  ensure(heads % config.kv_heads == 0, "attention", config.kv_heads, " key-value heads do not divide ", heads,
         " query heads");
  if (!config.scale) config.scale = 1 / std::sqrt(static_cast<double>(config.head_width));
  for (std::optional<bool>* part : {&config.key_bias, &config.value_bias, &config.output_bias})
    if (!*part) *part = config.bias;
  return config;
}

/// Their fields.
void projection_fields(auto&& f, auto&... c) {
  f("width", c.width...);
  f("heads", c.heads...);
  f("kv_heads", c.kv_heads...);
  f("head_width", c.head_width...);
  f("bias", c.bias...);
  f("key_bias", c.key_bias...);
  f("value_bias", c.value_bias...);
  f("output_bias", c.output_bias...);
  f("dropout", c.dropout...);
  f("scale", c.scale...);
}

}  // namespace detail

/// Of attention with some kind of heads and scores.
template <class HeadsConfig, class ScoresConfig>
struct BasicAttentionConfig {
  std::optional<Index> width{};       ///< D; none: the block's, or 512
  std::optional<Index> heads{};       ///< H; none: the block's, or 8
  Index kv_heads = 0;                 ///< K, a divisor of H; 0: H
  Index head_width = 0;               ///< E; 0: D/H
  bool bias = true;                   ///< on the projections of queries, keys and values
  std::optional<bool> key_bias{};     ///< none: as the others
  std::optional<bool> value_bias{};   ///< none: as the others
  std::optional<bool> output_bias{};  ///< on the last projection; none: as the others
  std::optional<double> dropout{};    ///< on the attention weights; none: the block's, or 0
  std::optional<double> scale{};      ///< of the scores; none: 1/√E
  Index window = 0;                   ///< if not 0: a query sees only keys less than so many tokens away
  bool sinks = false;                 ///< a learned score per head that attends to nothing
  HeadsConfig per_head{};             ///< of what happens to queries and keys before they meet
  ScoresConfig scores{};              ///< of what happens to the scores

  /// With everything filled in; throws if a setting is invalid.
  BasicAttentionConfig completed() const {
    BasicAttentionConfig config = detail::completed_projections(*this);
    require_range("attention", "window", window, 0, largest_index);
    const SharedSettings shared{.heads = config.heads, .head_width = config.head_width};
    config.per_head = inherit("attention", per_head, shared);
    config.scores = inherit("attention", scores, shared);
    if constexpr (requires { config.scores.heads; })
      ensure(config.scores.heads == *config.heads, "attention", "scores of ", config.scores.heads,
             " heads, but there are ", *config.heads);
    return config;
  }

  static void fields(auto&& f, auto&... c) {
    detail::projection_fields(f, c...);
    f("window", c.window...);
    f("sinks", c.sinks...);
    f("per_head", c.per_head...);
    f("scores", c.scores...);
  }
  friend bool operator==(const BasicAttentionConfig&, const BasicAttentionConfig&) = default;
};
/// Where heads and scores have no settings.
using AttentionConfig = BasicAttentionConfig<EmptyConfig, EmptyConfig>;

/// The fields of an AttentionCall that a position fills in (its `gives`), or that heads or scores read (their `uses`).
/// A part that does not say gives and uses none.
struct PositionInputs {
  bool rotary = false, bias = false;

  friend constexpr bool operator==(const PositionInputs&, const PositionInputs&) = default;
  friend constexpr PositionInputs operator|(const PositionInputs& a, const PositionInputs& b) {
    return {a.rotary || b.rotary, a.bias || b.bias};
  }
};

template <class Part>
constexpr PositionInputs inputs_used() {
  if constexpr (requires { Part::uses; }) return Part::uses;
  else return {};
}
template <class Part>
constexpr PositionInputs inputs_given() {
  if constexpr (requires { Part::gives; }) return Part::gives;
  else return {};
}

/// Whether an attention uses what the position gives it, no less and no more: Rotary goes with RotaryHeads, Relative
/// with BiasedScores, all others with neither.
template <class Position, class SelfAttention>
inline constexpr bool position_fits = inputs_given<Position>() == inputs_used<SelfAttention>();

/// What a call attends to, and how; positions that act on queries, keys or scores come from a position's attend().
template <Real T>
struct AttentionCall {
  ConstView<T, 3> memory{};  ///< (B, M, D) for cross-attention; null: x itself
  Mask mask{};
  op::RotaryTable<T> rotary{};      ///< for RotaryHeads
  DistanceBias<T> bias{};           ///< (H, distances) for BiasedScores
  KvCache<T>* caches = nullptr;     ///< one per layer of the stack, or none: then x (1, N of all, D) is of their
                                    ///< sequences, one after the other,
  std::span<const Index> counts{};  ///< so many tokens of each, which they take up;
  bool filled = false;              ///< or which only look at what they hold (cross-attention)

  /// Tokens of the longest sequence, those of x, `tokens` in all, included.
  Index longest(Index tokens) const {
    Index most = 0, sum = 0;
    for (const Index count : counts) {
      ensure(count >= 0 && count <= tokens - sum, "attention", "the counts of new tokens do not add up to ", tokens);
      sum += count;
    }
    ensure(static_cast<Index>(counts.size()) == caches->sequences(), "attention", "tokens of ", counts.size(),
           " sequences, but there are caches of ", caches->sequences());
    for (std::size_t s = 0; s < counts.size(); ++s)
      most = (std::max)(most, caches->length(static_cast<Index>(s)) + (filled ? 0 : counts[s]));
    return most;
  }
};

}  // namespace eigenformer
