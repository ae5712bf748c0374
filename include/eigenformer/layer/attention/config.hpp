// Sizes of attention, and what a call attends to.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>

#include "eigenformer/core/context.hpp"
#include "eigenformer/kernel/mask.hpp"
#include "eigenformer/layer/attention/kv_cache.hpp"
#include "eigenformer/op/relative.hpp"
#include "eigenformer/op/rotary.hpp"

namespace eigenformer {

struct AttentionConfig {
  Index width = 512;                 ///< D
  Index heads = 8;                   ///< H
  Index key_heads = 0;               ///< K, a divisor of H; 0: H
  Index head_width = 0;              ///< E; 0: D/H
  bool bias = true;                  ///< on the projections of queries, keys and values
  std::optional<bool> key_bias{};    ///< none: as the others
  std::optional<bool> value_bias{};  ///< none: as the others
  std::optional<bool> output_bias{};  ///< on the last projection; none: as the others
  double dropout = 0;                ///< on the attention weights
  std::optional<double> scale{};     ///< of the scores; none: 1/√E
  Index window = 0;                  ///< if not 0: a query sees only keys less than so many tokens away
  double cap = 0;                    ///< of the scores, for CappedScores
  double epsilon = 1e-6;             ///< of the norms in QkNorm
  bool sinks = false;                ///< a learned score per head that attends to nothing

  /// With everything filled in; throws if it makes no sense.
  AttentionConfig completed() const {
    AttentionConfig config = *this;
    require(width > 0 && heads > 0, "attention", heads, " heads of model width ", width, " make no sense");
    if (head_width == 0) {
      require(width % heads == 0, "attention", heads, " heads do not divide model width ", width);
      config.head_width = width / heads;
    }
    if (key_heads == 0) config.key_heads = heads;
    require(config.head_width <= (std::numeric_limits<Index>::max)() / heads, "attention", heads, " heads of width ", config.head_width, " are too wide");
    require(config.head_width > 0, "attention", "head width ", config.head_width, " is not positive");
    require(config.key_heads > 0 && heads % config.key_heads == 0, "attention", config.key_heads, " key-value heads do not divide ", heads, " query heads");
    require(dropout >= 0 && dropout < 1, "attention", "dropout probability ", dropout, " is not in [0, 1)");
    require(window >= 0, "attention", "a window of ", window, " tokens makes no sense");
    if (!scale) config.scale = 1 / std::sqrt(static_cast<double>(config.head_width));
    for (std::optional<bool>* part : {&config.key_bias, &config.value_bias, &config.output_bias})
      if (!*part) *part = bias;
    return config;
  }
};

/// What a call attends to, and how; positions that act on queries, keys or scores come from a position's attend().
template <Real T>
struct AttentionCall {
  ConstView<T, 3> memory{};        ///< (B, M, D) for cross-attention; null: x itself
  Mask mask{};
  op::RotaryTable<T> rotary{};     ///< for RotaryHeads
  DistanceBias<T> bias{};          ///< (H, distances) for BiasedScores
  KvCache<T>* caches = nullptr;    ///< one per layer of the stack, or none: then x (1, N of all, D) is of their sequences, one after the other,
  std::span<const Index> counts{};  ///< so many tokens of each, which they take up;
  bool filled = false;              ///< or which only look at what they hold (cross-attention)

  /// Tokens of the longest sequence, those of x included.
  Index longest() const {
    Index most = 0;
    for (std::size_t s = 0; s < counts.size(); ++s) most = (std::max)(most, caches->length(static_cast<Index>(s)) + (filled ? 0 : counts[s]));
    return most;
  }
};

}  // namespace eigenformer
