// Feed-forward networks: plain and gated, whole.
#pragma once

#include "eigenformer/core/context.hpp"
#include "eigenformer/kernel/feed_forward.hpp"
#include "eigenformer/op/linear.hpp"

namespace eigenformer::inline EIGENFORMER_ABI::op {

namespace detail {

template <class T>
kernel::LinearGradient<T> gradient(Context& back, const kernel::WeightAndBias<T>& map) {
  return {back.gradient(map.weight.values), back.gradient(map.bias)};
}

}  // namespace detail

/// activation(x·Uᵀ + b)·Dᵀ + c: x (…, D), up (F, D), down (D, F) → (…, D)
template <class Activation, class T, int Rank>
ConstView<T, Rank> mlp(Context& ctx, ConstView<T, Rank> x, const kernel::WeightAndBias<T>& up,
                       const kernel::WeightAndBias<T>& down) {
  check_linear(x, up.weight, up.bias);
  const Shape<Rank> hidden = x.shape().with_width(up.weight.width), out = x.shape().with_width(down.weight.width);
  check_linear(ConstView<T, Rank>(nullptr, hidden), down.weight, down.bias);
  const View<T, Rank> y = ctx.output<T>(out);
  const View<T, 2> kept = ctx.tape ? ctx.arena.allocate<T>(Shape{x.rows(), hidden.width()}) : View<T, 2>();
  kernel::mlp_forward<Activation, T>(ctx.threads, ctx.arena, x.flat(), up, down, kept, y.flat());
  ctx.record(y, [=](Context& back, ConstView<T, Rank> dy) {
    const auto ddown = detail::gradient(back, down);
    const auto dx = back.gradient(x).flat();
    const auto dup = detail::gradient(back, up);
    kernel::mlp_backward<Activation, T>(back.threads, back.arena, x.flat(), up, down, kept, dy.flat(), dx, dup, ddown);
  });
  return y;
}

/// (activation(x·Gᵀ) ∘ (x·Uᵀ))·Dᵀ, each with a bias or none: x (…, D), gate and up (F, D), down (D, F) → (…, D)
template <class Activation, class T, int Rank>
ConstView<T, Rank> gated_mlp(Context& ctx, ConstView<T, Rank> x, const kernel::WeightAndBias<T>& gate,
                             const kernel::WeightAndBias<T>& up, const kernel::WeightAndBias<T>& down) {
  check_linear(x, gate.weight, gate.bias);
  check_linear(x, up.weight, up.bias);
  ensure(weight_shape(gate.weight) == weight_shape(up.weight), "gated_mlp", "a gate of ", weight_shape(gate.weight),
         " does not fit a weight of ", weight_shape(up.weight));
  const Shape<Rank> hidden = x.shape().with_width(up.weight.width), out = x.shape().with_width(down.weight.width);
  check_linear(ConstView<T, Rank>(nullptr, hidden), down.weight, down.bias);
  const View<T, Rank> y = ctx.output<T>(out);
  const Shape<2> kept{x.rows(), hidden.width()};
  const View<T, 2> kept_gate = ctx.tape ? ctx.arena.allocate<T>(kept) : View<T, 2>(),
                   kept_up = ctx.tape ? ctx.arena.allocate<T>(kept) : View<T, 2>();
  kernel::gated_mlp_forward<Activation, T>(ctx.threads, ctx.arena, x.flat(), gate, up, down, kept_gate, kept_up,
                                           y.flat());
  ctx.record(y, [=](Context& back, ConstView<T, Rank> dy) {
    const auto ddown = detail::gradient(back, down);
    const auto dx = back.gradient(x).flat();
    const auto dgate = detail::gradient(back, gate), dup = detail::gradient(back, up);
    kernel::gated_mlp_backward<Activation, T>(back.threads, back.arena, x.flat(), gate, up, down, kept_gate, kept_up,
                                              dy.flat(), dx, dgate, dup, ddown);
  });
  return y;
}

}  // namespace eigenformer::op
