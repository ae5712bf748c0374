// y = g·x / ‖x‖ over the last axis (Nguyen and Salazar 2019)
#pragma once

#include <cmath>

#include "eigenformer/core/settings.hpp"
#include "eigenformer/core/visit.hpp"
#include "eigenformer/op/affine.hpp"
#include "eigenformer/op/norm.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

struct ScaleNormConfig {
  Index width = 0;
  double epsilon = 1e-12;  ///< added to the mean square

  static void fields(auto&& f, auto&... c) {
    f("width", c.width...);
    f("epsilon", c.epsilon...);
  }
  friend bool operator==(const ScaleNormConfig&, const ScaleNormConfig&) = default;
};

/// Begins with g = 1; the paper's √D is a good choice too.
template <Real T = float>
struct ScaleNorm {
  using Config = ScaleNormConfig;

  Tensor<T, 1> weight;  // (1): g
  Fixed<double> factor, epsilon;

  explicit ScaleNorm(const ScaleNormConfig& config)
      : factor(1 / std::sqrt(static_cast<double>(config.width))), epsilon(config.epsilon) {
    require_range("scale_norm", "width", config.width, 1);
    require_range("scale_norm", "epsilon", config.epsilon, 0);
    weight = Tensor<T, 1>(Shape{1});
  }

  static void visit(auto&& f, auto&... m) { f(Leaf{"weight", Init::ones}, m.weight...); }

  /// x (…, D) → (…, D)
  ConstView<T, 3> operator()(Context& ctx, ConstView<T, 3> x) const {
    return op::affine(ctx, op::norm<NormKind::rms>(ctx, x, {}, epsilon), weight, {}, factor);
  }
};

}  // namespace eigenformer
