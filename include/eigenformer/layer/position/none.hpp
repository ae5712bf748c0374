// A position is where a model learns the order of its tokens: embed() acts on the input, attend() on how layers
// attend: what it fills in, `gives` says.
#pragma once

#include "eigenformer/core/visit.hpp"
#include "eigenformer/kernel/positions.hpp"
#include "eigenformer/layer/attention/config.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

/// None of either: order comes from elsewhere (causality, ALiBi) or not at all. The others derive from it.
template <Real T = float>
struct NoPosition {
  using Config = EmptyConfig;

  NoPosition() = default;
  explicit NoPosition(const Config&) {}
  static void visit(auto&&, auto&...) {}

  /// x (B, N, D) → (B, N, D)
  ConstView<T, 3> embed(Context&, ConstView<T, 3> x, const Positions&) const { return x; }

  /// Adds to the call what heads or scores need, for x of `batch` times `tokens`.
  void attend(Context&, Index /*batch*/, Index /*tokens*/, const Positions&, AttentionCall<T>&) const {}
};

}  // namespace eigenformer
