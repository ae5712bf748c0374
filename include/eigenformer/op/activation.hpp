// Elementwise activations.
#pragma once

#include "eigenformer/core/context.hpp"
#include "eigenformer/kernel/activation.hpp"

namespace eigenformer::op {

/// x (…, D) → (…, D)
template <class Activation, class T, int Rank>
ConstView<T, Rank> activate(Context& ctx, ConstView<T, Rank> x) {
  const View<T, Rank> y = ctx.output<T>(x.shape());
  kernel::activation_forward<Activation, T>(ctx.threads, x.flat(), y.flat());
  ctx.record(y, [=](Context& back, ConstView<T, Rank> dy) {
    kernel::activation_backward<Activation>(back.threads, x.flat(), dy.flat(), back.gradient(x).flat());
  });
  return y;
}

}  // namespace eigenformer::op
