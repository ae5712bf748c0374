// PE(p, 2i) = sin(p / base^(2i/D)), PE(p, 2i+1) = cos(p / base^(2i/D)) (Vaswani et al. 2017, section 3.5)
#pragma once

#include "eigenformer/core/settings.hpp"
#include "eigenformer/layer/position/none.hpp"
#include "eigenformer/op/embedding.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

struct SinusoidalConfig {
  double base = 10000;
  bool halves = false;  ///< see SinusoidLayout
  bool inclusive = false;

  static void fields(auto&& f, auto&... c) {
    f("base", c.base...);
    f("halves", c.halves...);
    f("inclusive", c.inclusive...);
  }
  friend bool operator==(const SinusoidalConfig&, const SinusoidalConfig&) = default;
};

/// No weights and no table: any length.
template <Real T = float>
struct Sinusoidal : NoPosition<T> {
  using Config = SinusoidalConfig;

  Fixed<double> base;
  Fixed<SinusoidLayout> layout;

  explicit Sinusoidal(const Config& config = {})
      : base(config.base), layout(SinusoidLayout{config.halves, config.inclusive}) {
    require_range("sinusoidal", "base", config.base, smallest_real);
  }

  /// x (B, N, D) at positions first, first + 1, … → x + PE (B, N, D)
  ConstView<T, 3> operator()(Context& ctx, ConstView<T, 3> x, Index first = 0) const {
    return embed(ctx, x, {.first = first});
  }

  ConstView<T, 3> embed(Context& ctx, ConstView<T, 3> x, const Positions& positions) const {
    return op::add_sinusoid(ctx, x, positions, base, layout);
  }
};

}  // namespace eigenformer
