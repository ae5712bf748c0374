// Token embedding: √D · table[ids] (Vaswani et al. 2017, section 3.4), and the same table as output projection.
#pragma once

#include <cmath>

#include "eigenformer/core/settings.hpp"
#include "eigenformer/core/visit.hpp"
#include "eigenformer/op/embedding.hpp"
#include "eigenformer/op/linear.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

struct EmbeddingConfig {
  Index vocabulary = 0, width = 0;
  bool scaled = true;  ///< multiply looked-up rows by √D

  static void fields(auto&& f, auto&... c) {
    f("vocabulary", c.vocabulary...);
    f("width", c.width...);
    f("scaled", c.scaled...);
  }
  friend bool operator==(const EmbeddingConfig&, const EmbeddingConfig&) = default;
};

template <Real T = float>
struct Embedding {
  using Config = EmbeddingConfig;

  Weight<T> weight;  // (V, D)
  Fixed<double> scale;

  explicit Embedding(const EmbeddingConfig& config)
      : scale(config.scaled ? std::sqrt(static_cast<double>(config.width)) : 1) {
    require_range("embedding", "vocabulary", config.vocabulary, 1);
    require_range("embedding", "width", config.width, 1);
    weight = Weight<T>(Shape{config.vocabulary, config.width});
  }

  static void visit(auto&& f, auto&... m) { f(Leaf{"weight", Init::embedding, Decay::yes}, m.weight...); }

  /// ids (B, N) → (B, N, D)
  ConstView<T, 3> operator()(Context& ctx, ConstView<Id, 2> ids) const {
    return op::embedding(ctx, ids, weight, static_cast<T>(scale));
  }

  /// The tied output projection: x (B, N, D) → logits x·weightᵀ (B, N, V), unscaled.
  ConstView<T, 3> logits(Context& ctx, ConstView<T, 3> x) const { return op::linear(ctx, x, weight); }
};

}  // namespace eigenformer
