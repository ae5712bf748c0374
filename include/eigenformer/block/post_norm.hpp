// norm(x + dropout(sublayer(x))) (Vaswani et al. 2017, sections 3.1 and 5.4)
#pragma once

#include <string_view>

#include "eigenformer/block/residual.hpp"
#include "eigenformer/core/visit.hpp"
#include "eigenformer/layer/norm/layer_norm.hpp"
#include "eigenformer/op/dropout.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

template <Real T = float, class NormType = LayerNorm<T>>
struct PostNorm {
  using Scalar = T;
  using Norm = NormType;
  using Config = ResidualConfig<typename Norm::Config>;
  static constexpr bool needs_final_norm = false;
  static constexpr std::string_view kind = "post_norm";

  Norm norm;  // (D)
  Fixed<double> dropout;

  explicit PostNorm(const Config& config) : norm(config.completed().norm), dropout(config.dropout.value_or(0)) {}

  static void visit(auto&& f, auto&... m) { f("norm", m.norm...); }

  /// x (B, N, D) → (B, N, D); sublayer maps (B, N, D) to the same shape
  ConstView<T, 3> operator()(Context& ctx, ConstView<T, 3> x, auto&& sublayer) const {
    const ConstView<T, 3> update = sublayer(x);
    if constexpr (requires { norm.of_residual(ctx, x, update, dropout); })
      return norm.of_residual(ctx, x, update, dropout);
    else return norm(ctx, op::residual(ctx, x, update, dropout));
  }
};

}  // namespace eigenformer
