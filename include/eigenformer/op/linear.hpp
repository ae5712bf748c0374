// y = x·wᵀ + b
#pragma once

#include <type_traits>

#include "eigenformer/core/context.hpp"
#include "eigenformer/kernel/gemm.hpp"
#include "eigenformer/op/weight.hpp"

namespace eigenformer::op {

/// x (…, In), weight (Out, In), bias (Out) or null → (…, Out); `packed` are the weight's panels, if they exist.
template <class T, int Rank>
ConstView<T, Rank> linear(Context& ctx, ConstView<T, Rank> x, std::type_identity_t<ConstView<T, 2>> weight,
                          std::type_identity_t<ConstView<T, 1>> bias = {}, std::type_identity_t<const T*> packed = nullptr) {
  require(x.width() == weight.extent(1), "linear", "input ", x.shape(), " does not fit a weight of ", weight.shape());
  require(!bias || bias.size() == weight.extent(0), "linear", "bias ", bias.shape(), " does not fit a weight of ", weight.shape());
  const View<T, Rank> y = ctx.output<T>(x.shape().with_width(weight.extent(0)));
  if (packed) {
    kernel::linear_forward<T>(ctx.threads, x.flat(), {packed, x.width(), y.width()}, bias, y.flat());
  } else {
    const auto scratch = ctx.scratch();
    kernel::linear_forward<T>(ctx.threads, ctx.arena, x.flat(), weight, bias, y.flat());
  }
  ctx.record(y, [=](Context& back, ConstView<T, Rank> dy) {
    const auto dx = back.gradient(x).flat(), dweight = back.gradient(weight);
    const auto dbias = back.gradient(bias);
    const auto scratch = back.scratch();
    kernel::linear_backward_input<T>(back.threads, back.arena, dy.flat(), weight, dx);
    kernel::linear_backward_weight<T>(back.threads, back.arena, dy.flat(), x.flat(), dweight, dbias);
  });
  return y;
}

template <class T, int Rank>
ConstView<T, Rank> linear(Context& ctx, ConstView<T, Rank> x, const Weight<T>& weight, std::type_identity_t<ConstView<T, 1>> bias = {}) {
  return linear(ctx, x, weight.view(), bias, weight.packed());
}

}  // namespace eigenformer::op
