// Learned positions: x + table[position + offset] (Gehring et al. 2017)
#pragma once

#include "eigenformer/layer/position/none.hpp"
#include "eigenformer/op/dropout.hpp"
#include "eigenformer/op/embedding.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

struct LearnedConfig {
  Index width = 0;          ///< D; 0: the model's
  Index max_positions = 0;  ///< tokens; 0: the model's

  static void fields(auto&& f, auto&... c) {
    f("width", c.width...);
    f("max_positions", c.max_positions...);
  }
  friend bool operator==(const LearnedConfig&, const LearnedConfig&) = default;
};

/// Offset: rows of the table that come before position 0 (2 for RoBERTa and BART).
template <Real T = float, Index Offset = 0>
struct Learned : NoPosition<T> {
  using Config = LearnedConfig;

  Tensor<T, 2> weight;  // (max_positions + Offset, D)

  explicit Learned(const Config& config) {
    require_range("learned", "max_positions", config.max_positions, 1, largest_extent - Offset);
    require_range("learned", "width", config.width, 1);
    weight = Tensor<T, 2>(Shape{config.max_positions + Offset, config.width});
  }

  static void visit(auto&& f, auto&... m) { f(Leaf{"weight", Init::embedding, Decay::yes}, m.weight...); }

  Index max_positions() const { return weight.extent(0) - Offset; }

  /// x (B, N, D) → (B, N, D)
  ConstView<T, 3> embed(Context& ctx, ConstView<T, 3> x, const Positions& positions) const {
    const Index batch = x.extent(0), tokens = x.extent(1);
    positions.validate("learned", batch, tokens);
    const View<Id, 2> ids = ctx.arena.allocate<Id>(Shape{batch, tokens});
    for (Index b = 0; b < batch; ++b)
      for (Index n = 0; n < tokens; ++n) {
        const Index position = positions.at(b, n);
        ensure(position < max_positions(), "learned", "position ", position, " of token ", n, " is past the last of ",
               max_positions());
        ids(b, n) = static_cast<Id>(position + Offset);
      }
    return op::add(ctx, x, op::embedding<T>(ctx, ConstView<Id, 2>(ids), weight));
  }
};

}  // namespace eigenformer
