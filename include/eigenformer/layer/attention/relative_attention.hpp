// Attention with relative keys and values (Shaw, Uszkoreit, Vaswani 2018):
//   scores scale·qᵢ·(kⱼ + a_r), outputs Σⱼ wᵢⱼ·(vⱼ + b_r), r = j − i clipped to ±k; the tables a and b are shared by
//   the heads
#pragma once

#include <optional>

#include "eigenformer/core/visit.hpp"
#include "eigenformer/layer/attention/attend.hpp"
#include "eigenformer/layer/attention/config.hpp"
#include "eigenformer/layer/attention/projections.hpp"
#include "eigenformer/op/affine.hpp"
#include "eigenformer/op/attention.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

struct RelativeAttentionConfig {
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
  Index clip = 16;                    ///< k

  /// With everything filled in; throws if a setting is invalid.
  RelativeAttentionConfig completed() const {
    require_range("relative_attention", "clip", clip, 1, largest_extent / 2);
    return detail::completed_projections(*this);
  }

  static void fields(auto&& f, auto&... c) {
    detail::projection_fields(f, c...);
    f("clip", c.clip...);
  }
  friend bool operator==(const RelativeAttentionConfig&, const RelativeAttentionConfig&) = default;
};

template <Real T = float>
struct RelativeAttention : AttentionProjections<T> {
  using Projections = AttentionProjections<T>;
  using Projections::query, Projections::key, Projections::value, Projections::output, Projections::head_width,
      Projections::scale, Projections::dropout;
  using Config = RelativeAttentionConfig;

  Tensor<T, 2> relative_key;    // (2k + 1, E)
  Tensor<T, 2> relative_value;  // (E, 2k + 1): a linear map of the sums of weights by distance
  Fixed<Index> clip;

  explicit RelativeAttention(const Config& config) : Projections(config.completed()), clip(config.clip) {
    relative_key = Tensor<T, 2>(Shape{2 * clip + 1, head_width});
    relative_value = Tensor<T, 2>(Shape{head_width, 2 * clip + 1});
  }

  static void visit(auto&& f, auto&... m) {
    Projections::visit(f, m...);
    f(Leaf{"relative_key", Init::xavier, Decay::yes}, m.relative_key...);
    f(Leaf{"relative_value", Init::xavier, Decay::yes}, m.relative_value...);
  }

  /// x (B, N, D) → (B, N, D)
  ConstView<T, 3> operator()(Context& ctx, ConstView<T, 3> x, const AttentionCall<T>& call = {}) const {
    ensure(!call.memory.given() && !call.filled, "relative_attention", "it is for self-attention");
    const auto projected = query(ctx, x);
    const auto q = projected.split_last(head_width), k = key(ctx, x).split_last(head_width),
               v = value(ctx, x).split_last(head_width);
    const Index batch = x.extent(0), tokens = x.extent(1), heads = q.extent(2), distances = 2 * clip + 1;
    const auto each_head = [&](ConstView<T, 3> y) { return y.reshape(Shape{batch, tokens, heads, y.extent(2)}); };
    const auto logits = op::scale(
        ctx, op::linear<T, 3>(ctx, projected.reshape(Shape{batch, tokens * heads, head_width}), relative_key), scale);
    const View<T, 4> sums = ctx.output<T>(Shape{batch, tokens, heads, distances});
    const op::DistanceSums<T, op::RelativeKeyScore<T>> score{{each_head(logits), clip}, sums, clip};
    const auto mixed = attend<T>(ctx, call, q, k, v, {scale, call.mask, dropout}, score);
    const auto moved =
        op::linear<T, 3>(ctx, ConstView<T, 4>(sums).reshape(Shape{batch, tokens * heads, distances}), relative_value);
    const Shape<3> flat{batch, tokens, heads * head_width};
    return output(ctx, op::add(ctx, mixed.reshape(flat), moved.reshape(flat)));
  }
};

}  // namespace eigenformer
