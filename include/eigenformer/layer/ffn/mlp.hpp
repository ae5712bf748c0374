// The position-wise feed-forward network: activation(x·Wuᵀ + bu)·Wdᵀ + bd (Vaswani et al. 2017, equation 2)
#pragma once

#include "eigenformer/core/settings.hpp"
#include "eigenformer/core/visit.hpp"
#include "eigenformer/layer/linear.hpp"
#include "eigenformer/op/feed_forward.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

struct MlpConfig {
  Index width = 512;  ///< D
  Index hidden = 0;   ///< F; 0: 4·D
  bool bias = true;

  LinearConfig up() const {
    require_range("mlp", "width", width, 1, largest_extent / 4);
    require_range("mlp", "hidden", hidden, 0);
    return {width, hidden > 0 ? hidden : 4 * width, bias};
  }
  LinearConfig down() const { return {up().out, width, bias}; }
};

template <Real T = float, class Activation = Relu>
struct Mlp {
  using Config = MlpConfig;

  Linear<T> up;    // (F, D)
  Linear<T> down;  // (D, F)

  explicit Mlp(const MlpConfig& config) : up(config.up()), down(config.down()) {}

  static void visit(auto&& f, auto&... m) {
    f("up", m.up...);
    f("down", m.down...);
  }

  /// x (B, N, D) → (B, N, D)
  ConstView<T, 3> operator()(Context& ctx, ConstView<T, 3> x) const {
    return op::mlp<Activation, T>(ctx, x, {up.weight.operand(ctx), up.bias}, {down.weight.operand(ctx), down.bias});
  }
};

}  // namespace eigenformer
