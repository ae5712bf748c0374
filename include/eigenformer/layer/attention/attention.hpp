// Multi-head attention (Vaswani et al. 2017, section 3.2.2):
//   concat over heads of softmax(scale · (x·Wqᵀ)ₕ (m·Wkᵀ)ₕᵀ) (m·Wvᵀ)ₕ, times Woᵀ;  m = x for self-attention
// Grouped heads (Ainslie et al. 2023): query head h attends with key-value head h / (H/K).
#pragma once

#include "eigenformer/core/visit.hpp"
#include "eigenformer/layer/attention/attend.hpp"
#include "eigenformer/layer/attention/config.hpp"
#include "eigenformer/layer/attention/heads.hpp"
#include "eigenformer/layer/attention/projections.hpp"
#include "eigenformer/layer/attention/score.hpp"
#include "eigenformer/op/attention.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

template <Real T = float, class Heads = PlainHeads<T>, class Scores = PlainScores<T>>
struct Attention : AttentionProjections<T> {
  using Projections = AttentionProjections<T>;
  using Projections::query, Projections::key, Projections::value, Projections::output, Projections::head_width,
      Projections::scale, Projections::dropout;
  using Config = BasicAttentionConfig<typename Heads::Config, typename Scores::Config>;

  static constexpr PositionInputs uses = inputs_used<Heads>() | inputs_used<Scores>();

  Tensor<T, 1> sinks;  // (H), or none
  Heads heads;
  Scores scores;
  Fixed<Index> window;

  explicit Attention(const Config& config)
      : Projections(config.completed()), heads(config.completed().per_head), scores(config.completed().scores),
        window(config.window) {
    if (config.sinks) sinks = Tensor<T, 1>(Shape{*config.completed().heads});
  }

  KvCache<T> cache(Index sequences, Format format = Format::scalar) const {
    return Projections::cache(sequences, format, window);
  }

  static void visit(auto&& f, auto&... m) {
    Projections::visit(f, m...);
    f(Leaf{"sinks", Init::zeros}, m.sinks...);
    f("heads", m.heads...);
    f("scores", m.scores...);
  }

  /// x (B, N, D), memory (B, M, D) → (B, N, D)
  ConstView<T, 3> operator()(Context& ctx, ConstView<T, 3> x, const AttentionCall<T>& call = {}) const {
    const auto memory = call.memory.given() ? call.memory : x;
    const auto q = heads.queries(ctx, query(ctx, x).split_last(head_width), call);  // (B, N, H, E)
    ConstView<T, 4> k, v;                                                           // (B, M, K, E)
    if (!call.filled) {
      k = heads.keys(ctx, key(ctx, memory).split_last(head_width), call);
      v = value(ctx, memory).split_last(head_width);
    }
    const auto mixed =
        attend<T>(ctx, call, q, k, v, {scale, call.mask.within(window), dropout}, scores.bind(ctx, call), sinks);
    return output(ctx, mixed.reshape(x.shape().with_width(query.weight.extent(0))));
  }

  /// Fills the cache of the call: with keys and values of memory (1, M of all, D), counts[s] tokens of each sequence.
  void fill_cache(Context& ctx, ConstView<T, 3> memory, const AttentionCall<T>& call) const {
    const auto k = heads.keys(ctx, key(ctx, memory).split_last(head_width), call),
               v = value(ctx, memory).split_last(head_width);  // (1, M, K, E)
    call.caches->append(ctx.threads, k, v, call.counts, scale);
  }
};

}  // namespace eigenformer
