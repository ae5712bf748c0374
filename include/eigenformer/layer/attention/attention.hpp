// Multi-head attention (Vaswani et al. 2017, section 3.2.2):
//   concat over heads of softmax(scale · (x·Wqᵀ)ₕ (m·Wkᵀ)ₕᵀ) (m·Wvᵀ)ₕ, times Woᵀ;  m = x for self-attention
#pragma once

#include <cmath>
#include <limits>
#include <optional>

#include "eigenformer/core/visit.hpp"
#include "eigenformer/layer/linear.hpp"
#include "eigenformer/op/attention.hpp"

namespace eigenformer {

struct AttentionConfig {
  Index width = 512;              ///< D
  Index heads = 8;                ///< H
  Index key_heads = 0;            ///< K, a divisor of H; 0: H
  Index head_width = 0;           ///< E; 0: D/H
  bool bias = true;               ///< on all four projections
  double dropout = 0;             ///< on the attention weights
  std::optional<double> scale{};  ///< of the scores; none: 1/√E
};

/// What a call attends to, and how.
template <Real T>
struct AttentionCall {
  ConstView<T, 3> memory{};  ///< (B, M, D) for cross-attention; null: x itself
  Mask mask{};
};

template <Real T = float>
struct Attention {
  Linear<T> query;   // (H·E, D)
  Linear<T> key;     // (K·E, D)
  Linear<T> value;   // (K·E, D)
  Linear<T> output;  // (D, H·E)
  Index head_width;
  double scale, dropout;

  explicit Attention(AttentionConfig config)
      : query(projection(config, false)), key(projection(config, true)), value(projection(config, true)),
        output({query.weight.extent(0), config.width, config.bias}), head_width(completed(config).head_width),
        scale(config.scale.value_or(1 / std::sqrt(static_cast<double>(head_width)))), dropout(config.dropout) {}

  static void visit(auto&& f, auto&... m) {
    f("query", m.query...);
    f("key", m.key...);
    f("value", m.value...);
    f("output", m.output...);
  }

  /// x (B, N, D), memory (B, M, D) → (B, N, D)
  ConstView<T, 3> operator()(Context& ctx, ConstView<T, 3> x, const AttentionCall<T>& call = {}) const {
    const auto memory = call.memory || call.memory.extent(2) > 0 ? call.memory : x;  // an empty one may have no address
    const auto q = query(ctx, x).split_last(head_width);        // (B, N, H, E)
    const auto k = key(ctx, memory).split_last(head_width);     // (B, M, K, E)
    const auto v = value(ctx, memory).split_last(head_width);   // (B, M, K, E)
    const auto mixed = op::attention(ctx, q, k, v, {scale, call.mask, dropout});
    return output(ctx, mixed.reshape(x.shape().with_width(query.weight.extent(0))));
  }

 private:
  static AttentionConfig completed(AttentionConfig config) {
    require(config.width > 0 && config.heads > 0, "attention", config.heads, " heads of model width ", config.width, " make no sense");
    if (config.head_width == 0) {
      require(config.width % config.heads == 0, "attention", config.heads, " heads do not divide model width ", config.width);
      config.head_width = config.width / config.heads;
    }
    if (config.key_heads == 0) config.key_heads = config.heads;
    require(config.head_width <= (std::numeric_limits<Index>::max)() / config.heads, "attention", config.heads, " heads of width ",
            config.head_width, " are too wide");
    require(config.head_width > 0, "attention", "head width ", config.head_width, " is not positive");
    require(config.key_heads > 0 && config.heads % config.key_heads == 0, "attention", config.key_heads,
            " key-value heads do not divide ", config.heads, " query heads");
    require(config.dropout >= 0 && config.dropout < 1, "attention", "dropout probability ", config.dropout, " is not in [0, 1)");
    return config;
  }
  static LinearConfig projection(const AttentionConfig& config, bool of_memory) {
    const AttentionConfig full = completed(config);
    return {full.width, (of_memory ? full.key_heads : full.heads) * full.head_width, full.bias};
  }
};

}  // namespace eigenformer
