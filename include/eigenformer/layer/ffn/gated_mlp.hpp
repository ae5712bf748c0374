// The gated feed-forward network: (activation(x·Wgᵀ) ∘ (x·Wuᵀ))·Wdᵀ (Dauphin et al. 2017; Shazeer 2020):
// GLU with Sigmoid, ReGLU with Relu, GeGLU with Gelu, SwiGLU with Silu
#pragma once

#include <optional>
#include <string_view>

#include "eigenformer/core/settings.hpp"
#include "eigenformer/core/visit.hpp"
#include "eigenformer/layer/linear.hpp"
#include "eigenformer/op/feed_forward.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

/// The hidden width at which a gated network has as many weights as a plain one of `hidden`: 2/3 of it, rounded up to a
/// multiple.
inline Index gated_hidden(Index hidden, Index multiple = 1) {
  require_range("gated_hidden", "hidden", hidden, 1);
  require_range("gated_hidden", "multiple", multiple, 1);
  return (2 * hidden / 3 + multiple - 1) / multiple * multiple;
}

struct GatedMlpConfig {
  std::optional<Index> width{};  ///< D; none: the block's, or 512
  Index hidden = 0;              ///< F; 0: gated_hidden(4·D)
  bool bias = false;

  /// With everything filled in; throws if a setting is invalid.
  GatedMlpConfig completed() const {
    GatedMlpConfig config = *this;
    config.width = width.value_or(512);
    require_range("gated_mlp", "width", *config.width, 1, largest_extent / 4);
    require_range("gated_mlp", "hidden", hidden, 0);
    if (hidden == 0) config.hidden = gated_hidden(4 * *config.width);
    return config;
  }
  /// Of the map from D to F.
  LinearConfig up() const {
    const GatedMlpConfig config = completed();
    return {*config.width, config.hidden, bias};
  }
  LinearConfig down() const { return {up().out, up().in, bias}; }

  static void fields(auto&& f, auto&... c) {
    f("width", c.width...);
    f("hidden", c.hidden...);
    f("bias", c.bias...);
  }
  friend bool operator==(const GatedMlpConfig&, const GatedMlpConfig&) = default;
};

template <Real T = float, class Activation = Silu>
struct GatedMlp {
  using Config = GatedMlpConfig;
  static constexpr std::string_view kind = name_of<Activation>();

  Linear<T> gate;  // (F, D)
  Linear<T> up;    // (F, D)
  Linear<T> down;  // (D, F)

  explicit GatedMlp(const GatedMlpConfig& config) : gate(config.up()), up(config.up()), down(config.down()) {}

  static void visit(auto&& f, auto&... m) {
    f("gate", m.gate...);
    f("up", m.up...);
    f("down", m.down...);
  }

  /// x (B, N, D) → (B, N, D)
  ConstView<T, 3> operator()(Context& ctx, ConstView<T, 3> x) const {
    return op::gated_mlp<Activation, T>(ctx, x, {gate.weight.operand(), gate.bias}, {up.weight.operand(), up.bias},
                                        {down.weight.operand(), down.bias});
  }
};

template <Real T = float>
using Glu = GatedMlp<T, Sigmoid>;
template <Real T = float>
using ReGlu = GatedMlp<T, Relu>;
template <Real T = float>
using GeGlu = GatedMlp<T, Gelu>;
template <Real T = float>
using SwiGlu = GatedMlp<T, Silu>;

}  // namespace eigenformer
