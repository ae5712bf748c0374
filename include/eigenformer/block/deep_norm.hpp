// norm(α·x + dropout(sublayer(x))) (Wang et al. 2022); deep_norm_alpha and deep_norm_beta give the paper's constants
#pragma once

#include <cmath>
#include <optional>

#include "eigenformer/block/residual.hpp"
#include "eigenformer/core/visit.hpp"
#include "eigenformer/layer/norm/layer_norm.hpp"
#include "eigenformer/op/affine.hpp"
#include "eigenformer/op/dropout.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

/// α of a stack of so many layers without cross-attention (table 1): (2L)^¼
inline double deep_norm_alpha(Index layers) { return std::pow(2 * static_cast<double>(layers), 0.25); }
/// β, what the values, outputs and feed-forward weights are multiplied by at initialisation: (8L)^−¼
inline double deep_norm_beta(Index layers) { return std::pow(8 * static_cast<double>(layers), -0.25); }

template <class NormConfig>
struct DeepNormConfig {
  std::optional<Index> width{};     ///< D; none: the block's, or 512
  std::optional<double> dropout{};  ///< on the sublayer's output; none: the block's, or 0
  NormConfig norm{};                ///< also of the norm at the end of a stack
  double alpha = 1;                 ///< α

  /// With everything filled in; throws if a setting is invalid.
  DeepNormConfig completed() const {
    require_range("residual", "alpha", alpha, smallest_real);
    return ResidualConfig<NormConfig>::completed(*this);
  }

  static void fields(auto&& f, auto&... c) {
    ResidualConfig<NormConfig>::fields(f, c...);
    f("alpha", c.alpha...);
  }
  friend bool operator==(const DeepNormConfig&, const DeepNormConfig&) = default;
};

template <Real T = float, class NormType = LayerNorm<T>>
struct DeepNorm {
  using Scalar = T;
  using Norm = NormType;
  using Config = DeepNormConfig<typename Norm::Config>;
  static constexpr bool needs_final_norm = false;

  Norm norm;  // (D)
  Fixed<double> alpha, dropout;

  explicit DeepNorm(const Config& config)
      : norm(config.completed().norm), alpha(config.alpha), dropout(config.dropout.value_or(0)) {}

  static void visit(auto&& f, auto&... m) { f("norm", m.norm...); }

  /// x (B, N, D) → (B, N, D); sublayer maps (B, N, D) to the same shape
  ConstView<T, 3> operator()(Context& ctx, ConstView<T, 3> x, auto&& sublayer) const {
    return norm(ctx, op::residual(ctx, op::scale(ctx, x, alpha), sublayer(x), dropout));
  }
};

}  // namespace eigenformer
