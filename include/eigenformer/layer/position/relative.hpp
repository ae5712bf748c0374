// Learned biases of relative positions in buckets, for BiasedScores; one table for all layers (T5: Raffel et al. 2020)
#pragma once

#include <string_view>

#include "eigenformer/layer/position/none.hpp"
#include "eigenformer/op/relative.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

struct RelativeConfig {
  Index heads = 0;       ///< H; 0: the model's
  Index buckets = 32;    ///< for distances
  Index furthest = 128;  ///< distances from here on share the last one

  static void fields(auto&& f, auto&... c) {
    f("heads", c.heads...);
    f("buckets", c.buckets...);
    f("furthest", c.furthest...);
  }
  friend bool operator==(const RelativeConfig&, const RelativeConfig&) = default;
};

template <Real T = float, bool Bidirectional = true>
struct Relative : NoPosition<T> {
  using Config = RelativeConfig;
  static constexpr std::string_view kind = Bidirectional ? "bidirectional" : "backward";
  static constexpr PositionInputs gives{.bias = true};

  Tensor<T, 2> weight;  // (buckets, H)
  Fixed<RelativeBuckets> buckets;

  explicit Relative(const Config& config) : buckets(RelativeBuckets{config.buckets, config.furthest, Bidirectional}) {
    require_range("relative", "buckets", config.buckets, 1);
    require_range("relative", "furthest", config.furthest, 1);
    buckets->validate();
    require_range("relative", "heads", config.heads, 1);
    weight = Tensor<T, 2>(Shape{config.buckets, config.heads});
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
