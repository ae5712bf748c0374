// y = (x − mean) / √(variance + ε) ∘ weight + bias over the last axis (Ba, Kiros, Hinton 2016)
#pragma once

#include "eigenformer/core/settings.hpp"
#include "eigenformer/core/visit.hpp"
#include "eigenformer/op/norm.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

struct LayerNormConfig {
  Index width = 0;
  double epsilon = 1e-5;
  bool weight = true;  ///< learned factors
  bool bias = true;    ///< learned summands

  static void fields(auto&& f, auto&... c) {
    f("width", c.width...);
    f("epsilon", c.epsilon...);
    f("weight", c.weight...);
    f("bias", c.bias...);
  }
  friend bool operator==(const LayerNormConfig&, const LayerNormConfig&) = default;
};

template <Real T = float>
struct LayerNorm {
  using Config = LayerNormConfig;

  Tensor<T, 1> weight;  // (D), or none
  Tensor<T, 1> bias;    // (D), or none
  Fixed<double> epsilon;

  explicit LayerNorm(const LayerNormConfig& config) : epsilon(config.epsilon) {
    require_range("layer_norm", "width", config.width, 1);
    require_range("layer_norm", "epsilon", config.epsilon, 0);
    if (config.weight) weight = Tensor<T, 1>(Shape{config.width});
    if (config.bias) bias = Tensor<T, 1>(Shape{config.width});
  }

  static void visit(auto&& f, auto&... m) {
    f(Leaf{"weight", Init::ones}, m.weight...);
    f(Leaf{"bias", Init::zeros}, m.bias...);
  }

  /// x (…, D) → (…, D)
  ConstView<T, 2> operator()(Context& ctx, ConstView<T, 2> x) const {
    return op::norm<NormKind::layer>(ctx, x, {weight, bias}, epsilon);
  }
  ConstView<T, 3> operator()(Context& ctx, ConstView<T, 3> x) const {
    return op::norm<NormKind::layer>(ctx, x, {weight, bias}, epsilon);
  }

  /// norm(x + dropout(update)): both (B, N, D) → (B, N, D)
  ConstView<T, 3> of_residual(Context& ctx, ConstView<T, 3> x, ConstView<T, 3> update, double dropout) const {
    return op::residual_norm<NormKind::layer>(ctx, x, update, dropout, {weight, bias}, epsilon);
  }
};

}  // namespace eigenformer
