// The position-wise feed-forward network: activation(x·Wuᵀ + bu)·Wdᵀ + bd (Vaswani et al. 2017, equation 2)
#pragma once

#include <optional>
#include <string_view>

#include "eigenformer/core/settings.hpp"
#include "eigenformer/core/visit.hpp"
#include "eigenformer/layer/linear.hpp"
#include "eigenformer/op/feed_forward.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

struct MlpConfig {
  std::optional<Index> width{};  ///< D; none: the block's, or 512
  Index hidden = 0;              ///< F; 0: 4·D
  bool bias = true;

  /// With everything filled in; throws if a setting is invalid.
  MlpConfig completed() const {
    MlpConfig config = *this;
    config.width = width.value_or(512);
    require_range("mlp", "width", *config.width, 1, largest_extent / 4);
    require_range("mlp", "hidden", hidden, 0);
    if (hidden == 0) config.hidden = 4 * *config.width;
    return config;
  }
  /// Of the map from D to F.
  LinearConfig up() const {
    const MlpConfig config = completed();
    return {*config.width, config.hidden, bias};
  }
  LinearConfig down() const { return {up().out, up().in, bias}; }

  static void fields(auto&& f, auto&... c) {
    f("width", c.width...);
    f("hidden", c.hidden...);
    f("bias", c.bias...);
  }
  friend bool operator==(const MlpConfig&, const MlpConfig&) = default;
};

template <Real T = float, class Activation = Relu>
struct Mlp {
  using Config = MlpConfig;
  static constexpr std::string_view kind = name_of<Activation>();

  Linear<T> up;    // (F, D)
  Linear<T> down;  // (D, F)

  explicit Mlp(const MlpConfig& config) : up(config.up()), down(config.down()) {}

  static void visit(auto&& f, auto&... m) {
    f("up", m.up...);
    f("down", m.down...);
  }

  /// x (B, N, D) → (B, N, D)
  ConstView<T, 3> operator()(Context& ctx, ConstView<T, 3> x) const {
    return op::mlp<Activation, T>(ctx, x, {up.weight.operand(), up.bias}, {down.weight.operand(), down.bias});
  }
};

}  // namespace eigenformer
