// PE(p, 2i) = sin(p / base^(2i/D)), PE(p, 2i+1) = cos(p / base^(2i/D)) (Vaswani et al. 2017, section 3.5)
#pragma once

#include "eigenformer/layer/position/none.hpp"
#include "eigenformer/op/embedding.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

/// No weights and no table: any length.
template <Real T = float>
struct Sinusoidal : NoPosition<T> {
  double base = 10000;
  SinusoidLayout layout{};

  Sinusoidal() = default;
  explicit Sinusoidal(const PositionConfig&) {}

  /// x (B, N, D) at positions first, first + 1, … → x + PE (B, N, D)
  ConstView<T, 3> operator()(Context& ctx, ConstView<T, 3> x, Index first = 0) const {
    return embed(ctx, x, {.first = first});
  }

  ConstView<T, 3> embed(Context& ctx, ConstView<T, 3> x, const Positions& positions) const {
    return op::add_sinusoid(ctx, x, positions, base, layout);
  }
};

}  // namespace eigenformer
