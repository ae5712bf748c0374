// x + dropout(sublayer(norm(x))) (Xiong et al. 2020): the residual path is never touched; the stack needs a final norm.
#pragma once

#include <string_view>

#include "eigenformer/block/residual.hpp"
#include "eigenformer/core/visit.hpp"
#include "eigenformer/layer/norm/layer_norm.hpp"
#include "eigenformer/op/dropout.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

template <Real T = float, class NormType = LayerNorm<T>>
struct PreNorm {
  using Scalar = T;
  using Norm = NormType;
  using Config = ResidualConfig<typename Norm::Config>;
  static constexpr bool needs_final_norm = true;
  static constexpr std::string_view kind = "pre_norm";

  Norm norm;  // (D)
  Fixed<double> dropout;

  explicit PreNorm(const Config& config) : norm(config.completed().norm), dropout(config.dropout.value_or(0)) {}

  static void visit(auto&& f, auto&... m) { f("norm", m.norm...); }

  /// x (B, N, D) → (B, N, D); sublayer maps (B, N, D) to the same shape
  ConstView<T, 3> operator()(Context& ctx, ConstView<T, 3> x, auto&& sublayer) const {
    return op::residual(ctx, x, sublayer(norm(ctx, x)), dropout);
  }
};

}  // namespace eigenformer
