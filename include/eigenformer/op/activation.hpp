// Activations, alone and as the epilogue of a product.
#pragma once

#include <type_traits>

#include "eigenformer/core/context.hpp"
#include "eigenformer/kernel/activation.hpp"
#include "eigenformer/kernel/gemm.hpp"
#include "eigenformer/op/linear.hpp"
#include "eigenformer/op/weight.hpp"

namespace eigenformer::inline EIGENFORMER_ABI::op {

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

/// activation(x·wᵀ + b) in one pass: x (…, In), weight (Out, In), bias (Out) or null → (…, Out)
template <class Activation, class T, int Rank>
ConstView<T, Rank> activated_linear(Context& ctx, ConstView<T, Rank> x, const Weight<T>& weight,
                                    std::type_identity_t<ConstView<T, 1>> bias = {}) {
  const kernel::Operand<T> w = weight.operand();
  check_linear(x, w, bias);
  const View<T, Rank> y = ctx.output<T>(x.shape().with_width(w.width));
  const View<T, 2> sums = ctx.tape ? ctx.arena.allocate<T>(Shape{y.rows(), y.width()}) : View<T, 2>();
  kernel::linear_forward_then<T>(ctx.threads, ctx.arena, x.flat(), w, y.flat(),
                                 kernel::ActivatedBias<Activation, T>{bias.data(), sums});
  ctx.record(y, [=](Context& back, ConstView<T, Rank> dy) {
    const auto dx = back.gradient(x).flat(), dweight = back.gradient(w.values);
    const auto dbias = back.gradient(bias);
    const auto scratch = back.scratch();
    const auto dsums = back.arena.allocate<T>(sums.shape());
    kernel::activation_backward<Activation, T>(back.threads, sums, dy.flat(), {dsums, false});
    kernel::linear_backward_input<T>(back.threads, back.arena, dsums, w, dx);
    kernel::linear_backward_weight<T>(back.threads, back.arena, dsums, x.flat(), dweight, dbias);
  });
  return y;
}

}  // namespace eigenformer::op
