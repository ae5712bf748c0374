// y = tanh(α·x) ∘ weight + bias (Zhu et al. 2025): no statistics at all
#pragma once

#include "eigenformer/core/settings.hpp"
#include "eigenformer/core/visit.hpp"
#include "eigenformer/op/activation.hpp"
#include "eigenformer/op/affine.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

struct DynamicTanhConfig {
  Index width = 0;

  static void fields(auto&& f, auto&... c) { f("width", c.width...); }
  friend bool operator==(const DynamicTanhConfig&, const DynamicTanhConfig&) = default;
};

template <Real T = float>
struct DynamicTanh {
  using Config = DynamicTanhConfig;

  Tensor<T, 1> alpha;   // (1)
  Tensor<T, 1> weight;  // (D)
  Tensor<T, 1> bias;    // (D)

  explicit DynamicTanh(const DynamicTanhConfig& config) {
    require_range("dynamic_tanh", "width", config.width, 1);
    alpha = Tensor<T, 1>(Shape{1});
    weight = bias = Tensor<T, 1>(Shape{config.width});
  }

  static void visit(auto&& f, auto&... m) {
    f(Leaf{"alpha", Init::half}, m.alpha...);
    f(Leaf{"weight", Init::ones}, m.weight...);
    f(Leaf{"bias", Init::zeros}, m.bias...);
  }

  /// x (…, D) → (…, D)
  ConstView<T, 3> operator()(Context& ctx, ConstView<T, 3> x) const {
    return op::affine(ctx, op::activate<Tanh>(ctx, op::affine(ctx, x, alpha)), weight, bias);
  }
};

}  // namespace eigenformer
