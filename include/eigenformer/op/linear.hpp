// y = x·wᵀ + b
#pragma once

#include <type_traits>

#include "eigenformer/core/context.hpp"
#include "eigenformer/kernel/gemm.hpp"
#include "eigenformer/op/weight.hpp"

namespace eigenformer::inline EIGENFORMER_ABI::op {

/// Throws unless x (…, In), weight (Out, In) and bias (Out), or null, fit.
template <class T, int Rank>
void check_linear(ConstView<T, Rank> x, ConstView<T, 2> weight, ConstView<T, 1> bias) {
  ensure(x.width() == weight.extent(1), "linear", "input ", x.shape(), " does not fit a weight of ", weight.shape());
  ensure(!bias || bias.size() == weight.extent(0), "linear", "bias ", bias.shape(), " does not fit a weight of ",
         weight.shape());
}

/// x (…, In), weight (Out, In), bias (Out) or null → (…, Out); `panels` are the packed weight, if it exists.
template <class T, int Rank>
ConstView<T, Rank> linear(Context& ctx, ConstView<T, Rank> x, std::type_identity_t<ConstView<T, 2>> weight,
                          std::type_identity_t<ConstView<T, 1>> bias = {}, const kernel::Panels<T>& panels = {}) {
  check_linear(x, weight, bias);
  const View<T, Rank> y = ctx.output<T>(x.shape().with_width(weight.extent(0)));
  kernel::linear_forward<T>(ctx.threads, ctx.arena, x.flat(), weight, bias, y.flat(), panels);
  ctx.record(y, [=](Context& back, ConstView<T, Rank> dy) {
    const auto dx = back.gradient(x).flat(), dweight = back.gradient(weight);
    const auto dbias = back.gradient(bias);
    kernel::linear_backward_input<T>(back.threads, back.arena, dy.flat(), weight, dx);
    kernel::linear_backward_weight<T>(back.threads, back.arena, dy.flat(), x.flat(), dweight, dbias);
  });
  return y;
}

template <class T, int Rank>
ConstView<T, Rank> linear(Context& ctx, ConstView<T, Rank> x, const Weight<T>& weight,
                          std::type_identity_t<ConstView<T, 1>> bias = {}) {
  return linear(ctx, x, weight.operand(ctx), bias, weight.panels());
}

}  // namespace eigenformer::op
