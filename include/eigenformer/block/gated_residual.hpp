// x + dropout(γ ∘ sublayer(norm(x))): γ one number that begins at 0 (ReZero: Bachlechner et al. 2021, there without a
// norm), or a small one per element (LayerScale: Touvron et al. 2021)
#pragma once

#include "eigenformer/block/residual.hpp"
#include "eigenformer/core/visit.hpp"
#include "eigenformer/layer/norm/layer_norm.hpp"
#include "eigenformer/op/affine.hpp"
#include "eigenformer/op/dropout.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

template <Real T = float, class NormType = LayerNorm<T>>
struct LayerScale {
  using Scalar = T;
  using Norm = NormType;
  using Config = ResidualConfig<typename Norm::Config>;
  static constexpr bool needs_final_norm = true;

  Norm norm;            // (D)
  Tensor<T, 1> weight;  // (D)
  Fixed<double> dropout;

  explicit LayerScale(const Config& config)
      : norm(config.completed().norm), weight(Shape{*config.completed().width}), dropout(config.dropout.value_or(0)) {}

  static void visit(auto&& f, auto&... m) {
    f("norm", m.norm...);
    f(Leaf{"weight", Init::tiny}, m.weight...);
  }

  /// x (B, N, D) → (B, N, D); sublayer maps (B, N, D) to the same shape
  ConstView<T, 3> operator()(Context& ctx, ConstView<T, 3> x, auto&& sublayer) const {
    return op::residual(ctx, x, op::affine(ctx, ConstView<T, 3>(sublayer(norm(ctx, x))), weight), dropout);
  }
};

template <Real T = float>
struct ReZero {
  using Scalar = T;
  using Norm = LayerNorm<T>;  // of the stack's end, if it wants one
  using Config = ResidualConfig<LayerNormConfig>;
  static constexpr bool needs_final_norm = false;

  Tensor<T, 1> weight;  // (1)
  Fixed<double> dropout;

  explicit ReZero(const Config& config) : weight(Shape{1}), dropout(*config.completed().dropout) {}

  static void visit(auto&& f, auto&... m) { f(Leaf{"weight", Init::zeros}, m.weight...); }

  ConstView<T, 3> operator()(Context& ctx, ConstView<T, 3> x, auto&& sublayer) const {
    return op::residual(ctx, x, op::affine(ctx, ConstView<T, 3>(sublayer(x)), weight), dropout);
  }
};

}  // namespace eigenformer
