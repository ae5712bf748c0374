// x + dropout(norm(sublayer(norm(x)))): a norm before and one after (Ding et al. 2021; Gemma Team 2024)
#pragma once

#include "eigenformer/block/residual.hpp"
#include "eigenformer/core/visit.hpp"
#include "eigenformer/layer/norm/layer_norm.hpp"
#include "eigenformer/op/dropout.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

template <Real T = float, class NormType = LayerNorm<T>>
struct Sandwich {
  using Scalar = T;
  using Norm = NormType;
  using Config = ResidualConfig<typename Norm::Config>;
  static constexpr bool needs_final_norm = true;

  Norm before, after;  // (D)
  Fixed<double> dropout;

  explicit Sandwich(const Config& config)
      : before(config.completed().norm), after(config.completed().norm), dropout(config.dropout.value_or(0)) {}

  static void visit(auto&& f, auto&... m) {
    f("before", m.before...);
    f("after", m.after...);
  }

  /// x (B, N, D) → (B, N, D); sublayer maps (B, N, D) to the same shape
  ConstView<T, 3> operator()(Context& ctx, ConstView<T, 3> x, auto&& sublayer) const {
    return op::residual(ctx, x, after(ctx, sublayer(before(ctx, x))), dropout);
  }
};

}  // namespace eigenformer
