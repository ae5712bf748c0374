// y = x / √(mean of x² + ε) ∘ weight, or ∘ (1 + weight), over the last axis (Zhang and Sennrich 2019)
#pragma once

#include <string_view>

#include "eigenformer/core/settings.hpp"
#include "eigenformer/core/visit.hpp"
#include "eigenformer/op/norm.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

struct RmsNormConfig {
  Index width = 0;
  double epsilon = 1e-6;
  bool weight = true;  ///< learned factors

  static void fields(auto&& f, auto&... c) {
    f("width", c.width...);
    f("epsilon", c.epsilon...);
    f("weight", c.weight...);
  }
  friend bool operator==(const RmsNormConfig&, const RmsNormConfig&) = default;
};

/// OnePlus: the factors are 1 + weight, which then begins at 0 (Gemma Team 2024).
template <Real T = float, bool OnePlus = false>
struct RmsNorm {
  using Config = RmsNormConfig;
  static constexpr std::string_view kind = OnePlus ? "one_plus" : "plain";

  Tensor<T, 1> weight;  // (D), or none
  Fixed<double> epsilon;

  explicit RmsNorm(const RmsNormConfig& config) : epsilon(config.epsilon) {
    require_range("rms_norm", "width", config.width, 1);
    require_range("rms_norm", "epsilon", config.epsilon, 0);
    if (config.weight) weight = Tensor<T, 1>(Shape{config.width});
  }

  static void visit(auto&& f, auto&... m) { f(Leaf{"weight", OnePlus ? Init::zeros : Init::ones}, m.weight...); }

  /// x (…, D) → (…, D)
  ConstView<T, 2> operator()(Context& ctx, ConstView<T, 2> x) const {
    return op::norm<NormKind::rms>(ctx, x, weights(), epsilon);
  }
  ConstView<T, 3> operator()(Context& ctx, ConstView<T, 3> x) const {
    return op::norm<NormKind::rms>(ctx, x, weights(), epsilon);
  }

  /// norm(x + dropout(update)): both (B, N, D) → (B, N, D)
  ConstView<T, 3> of_residual(Context& ctx, ConstView<T, 3> x, ConstView<T, 3> update, double dropout) const {
    return op::residual_norm<NormKind::rms>(ctx, x, update, dropout, weights(), epsilon);
  }

 private:
  op::NormWeights<T> weights() const { return {weight, {}, static_cast<T>(OnePlus)}; }
};

}  // namespace eigenformer
