// Transformer-XL's attention (Dai et al. 2019, section 3.3): scores scale·((qᵢ + u)·kⱼ + (qᵢ + v)·r_{i−j}) with r a
// linear map of the sinusoid of the distance; keys and values see the hidden states of the segments before
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>

#include "eigenformer/core/visit.hpp"
#include "eigenformer/layer/attention/attend.hpp"
#include "eigenformer/layer/attention/config.hpp"
#include "eigenformer/layer/attention/projections.hpp"
#include "eigenformer/op/affine.hpp"
#include "eigenformer/op/attention.hpp"
#include "eigenformer/op/embedding.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

struct TransformerXlAttentionConfig {
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

  /// With everything filled in; throws if a setting is invalid.
  TransformerXlAttentionConfig completed() const { return detail::completed_projections(*this); }

  static void fields(auto&& f, auto&... c) { detail::projection_fields(f, c...); }
  friend bool operator==(const TransformerXlAttentionConfig&, const TransformerXlAttentionConfig&) = default;
};

template <Real T = float>
struct TransformerXlAttention : AttentionProjections<T> {
  using Projections = AttentionProjections<T>;
  using Projections::query, Projections::key, Projections::value, Projections::output, Projections::head_width,
      Projections::scale, Projections::dropout;
  using Config = TransformerXlAttentionConfig;

  Tensor<T, 2> position;       // (H·E, D): from the sinusoid of a distance to r
  Tensor<T, 1> content_bias;   // (H·E): u
  Tensor<T, 1> position_bias;  // (H·E): v

  explicit TransformerXlAttention(const Config& config)
      : Projections(config.completed()), position(query.weight.shape()), content_bias(Shape{query.weight.extent(0)}),
        position_bias(content_bias.shape()) {}

  static void visit(auto&& f, auto&... m) {
    Projections::visit(f, m...);
    f(Leaf{"position", Init::xavier, Decay::yes}, m.position...);
    f(Leaf{"content_bias", Init::zeros}, m.content_bias...);
    f(Leaf{"position_bias", Init::zeros}, m.position_bias...);
  }

  /// x (B, N, D); call.memory (B, M, D), which ends with x, for the segments before, or null → (B, N, D). The mask must
  /// be causal.
  ConstView<T, 3> operator()(Context& ctx, ConstView<T, 3> x, const AttentionCall<T>& call) const {
    ensure(call.mask.causal && !call.mask.prefixes, "transformer_xl",
           "the mask must be causal, without prefixes: there is no r for keys after the query");
    ensure(!call.caches || (!call.memory.given() && !call.filled), "transformer_xl",
           "with a cache, that holds the segments before: there is no memory");
    const auto memory = call.memory.given() ? call.memory : x;
    const Index keys = call.caches ? call.longest(x.rows()) : memory.extent(1), width = x.extent(2),
                heads = query.weight.extent(0) / head_width;
    // Column d of r belongs to distance key − query = d − (keys − 1), so to the sinusoid of keys − 1 − d.
    const View<T, 3> zeros = ctx.arena.allocate<T>(Shape{Index{1}, keys, width});
    std::fill_n(zeros.data(), zeros.size(), T{0});
    const auto ascending = op::add_sinusoid<T>(ctx, ConstView<T, 3>(zeros), {}, 10000, {.halves = true});
    const View<T, 2> sinusoids = ctx.arena.allocate<T>(Shape{keys, width});
    for (Index d = 0; d < keys; ++d) std::copy_n(&ascending(0, keys - 1 - d, 0), width, sinusoids.row(d));
    const auto r = op::linear<T, 2>(ctx, ConstView<T, 2>(position), ConstView<T, 2>(sinusoids))
                       .reshape(Shape{heads, head_width, keys});

    const auto q = query(ctx, x);
    const auto by_content = op::affine(ctx, q, {}, content_bias).split_last(head_width),
               by_position = op::affine(ctx, q, {}, position_bias).split_last(head_width);
    const auto k = key(ctx, memory).split_last(head_width), v = value(ctx, memory).split_last(head_width);
    const op::RelativeProductScore<T> score{by_position, r, keys - 1, scale};
    const auto mixed = attend<T>(ctx, call, by_content, k, v, {scale, call.mask, dropout}, score);
    return output(ctx, mixed.reshape(x.shape().with_width(heads * head_width)));
  }
};

}  // namespace eigenformer
