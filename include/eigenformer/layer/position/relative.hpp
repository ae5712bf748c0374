// Learned biases of relative positions in buckets, for BiasedScores; one table for all layers (T5: Raffel et al. 2020)
#pragma once

#include "eigenformer/layer/position/none.hpp"
#include "eigenformer/op/relative.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

template <Real T = float, bool Bidirectional = true>
struct Relative : NoPosition<T> {
  static constexpr PositionInputs gives{.bias = true};

  Tensor<T, 2> weight;  // (buckets, H)
  RelativeBuckets buckets;

  explicit Relative(const PositionConfig& config, Index count = 32, Index furthest = 128)
      : buckets{count, furthest, Bidirectional} {
    buckets.validate();
    require_range("relative", "heads", config.heads, 1);
    weight = Tensor<T, 2>(Shape{count, config.heads});
  }

  static void visit(auto&& f, auto&... m) { f(Leaf{"weight", Init::embedding, Decay::yes}, m.weight...); }

  void attend(Context& ctx, Index batch, Index tokens, const Positions& positions, AttentionCall<T>& call) const {
    positions.validate("relative", batch, tokens);
    ensure(positions.shared() || call.caches, "relative",
           "explicit positions are not supported: distances are those of tokens");
    call.bias = op::spread_buckets<T>(ctx, weight, buckets,
                                      call.caches ? call.longest(batch * tokens)
                                      : batch > 0 ? tokens
                                                  : 0);
  }
};

}  // namespace eigenformer
