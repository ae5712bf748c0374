// y = x·wᵀ + b
#pragma once

#include <type_traits>

#include "eigenformer/core/context.hpp"
#include "eigenformer/kernel/gemm.hpp"
#include "eigenformer/op/weight.hpp"

namespace eigenformer::inline EIGENFORMER_ABI::op {

/// (Out, In) of w (In, Out), as weights are declared.
template <class T>
Shape<2> weight_shape(const kernel::Operand<T>& w) {
  return {w.width, w.depth};
}

/// Throws unless x (…, In), w (In, Out) and bias (Out), or null, fit.
template <class T, int Rank>
void check_linear(ConstView<T, Rank> x, const kernel::Operand<T>& w, ConstView<T, 1> bias) {
  ensure(x.width() == w.depth, "linear", "input ", x.shape(), " does not fit a weight of ", weight_shape(w));
  ensure(!bias || bias.size() == w.width, "linear", "bias ", bias.shape(), " does not fit a weight of ",
         weight_shape(w));
}

/// x (…, In), w (In, Out), bias (Out) or null → (…, Out)
template <class T, int Rank>
ConstView<T, Rank> linear(Context& ctx, ConstView<T, Rank> x, const kernel::Operand<T>& w,
                          std::type_identity_t<ConstView<T, 1>> bias = {}) {
  check_linear(x, w, bias);
  const View<T, Rank> y = ctx.output<T>(x.shape().with_width(w.width));
  kernel::linear_forward<T>(ctx.threads, ctx.arena, x.flat(), w, bias, y.flat());
  ctx.record(y, [=](Context& back, ConstView<T, Rank> dy) {
    const auto dx = back.gradient(x).flat(), dweight = back.gradient(w.values);
    const auto dbias = back.gradient(bias);
    kernel::linear_backward_input<T>(back.threads, back.arena, dy.flat(), w, dx);
    kernel::linear_backward_weight<T>(back.threads, back.arena, dy.flat(), x.flat(), dweight, dbias);
  });
  return y;
}

/// The same for weight (Out, In).
template <class T, int Rank>
ConstView<T, Rank> linear(Context& ctx, ConstView<T, Rank> x, std::type_identity_t<ConstView<T, 2>> weight,
                          std::type_identity_t<ConstView<T, 1>> bias = {}) {
  return linear(ctx, x, kernel::Operand<T>::transposed(weight), bias);
}
template <class T, int Rank>
ConstView<T, Rank> linear(Context& ctx, ConstView<T, Rank> x, const Weight<T>& weight,
                          std::type_identity_t<ConstView<T, 1>> bias = {}) {
  return linear(ctx, x, weight.operand(), bias);
}

}  // namespace eigenformer::op
