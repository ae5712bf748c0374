// y = x·Wᵀ + b
#pragma once

#include "eigenformer/core/settings.hpp"
#include "eigenformer/core/visit.hpp"
#include "eigenformer/op/linear.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

struct LinearConfig {
  Index in = 0, out = 0;
  bool bias = true;

  static void fields(auto&& f, auto&... c) {
    f("in", c.in...);
    f("out", c.out...);
    f("bias", c.bias...);
  }
  friend bool operator==(const LinearConfig&, const LinearConfig&) = default;
};

template <Real T = float>
struct Linear {
  using Config = LinearConfig;

  Weight<T> weight;   // (Out, In)
  Tensor<T, 1> bias;  // (Out), or none

  explicit Linear(const LinearConfig& config) {
    require_range("linear", "in", config.in, 1);
    require_range("linear", "out", config.out, 1);
    weight = Weight<T>(Shape{config.out, config.in});
    if (config.bias) bias = Tensor<T, 1>(Shape{config.out});
  }

  static void visit(auto&& f, auto&... m) {
    f(Leaf{"weight", Init::xavier, Decay::yes}, m.weight...);
    f(Leaf{"bias", Init::zeros}, m.bias...);
  }

  /// x (…, In) → (…, Out)
  ConstView<T, 2> operator()(Context& ctx, ConstView<T, 2> x) const { return op::linear(ctx, x, weight, bias); }
  ConstView<T, 3> operator()(Context& ctx, ConstView<T, 3> x) const { return op::linear(ctx, x, weight, bias); }
};

}  // namespace eigenformer
