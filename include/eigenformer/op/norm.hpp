// Layer norm and RMS norm, alone or of a residual sum.
#pragma once

#include <type_traits>

#include "eigenformer/core/context.hpp"
#include "eigenformer/kernel/norm.hpp"
#include "eigenformer/op/dropout.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

using kernel::NormKind;

namespace op {

/// Learned factors and summands (D) of a norm, either may be null; `offset` is added to the factors.
template <class T>
struct NormWeights {
  ConstView<T, 1> weight{}, bias{};
  T offset = 0;

  kernel::Affine<T> affine() const { return {weight, bias, offset}; }
};

namespace detail {

template <NormKind Kind, class T, int Rank>
ConstView<T, Rank> norm(Context& ctx, ConstView<T, Rank> x, ConstView<T, Rank> update, const kernel::Dropout& dropout,
                        const NormWeights<T>& weights, double epsilon) {
  ensure((!weights.weight || weights.weight.size() == x.width()) && (!weights.bias || weights.bias.size() == x.width()),
         Kind == NormKind::layer ? "layer_norm" : "rms_norm", "input ", x.shape(), " does not fit a weight of ",
         weights.weight.shape(), " and a bias of ", weights.bias.shape());
  ConstView<T, Rank> in = x;
  View<T, Rank> sum;
  if (update && ctx.tape) {
    in = sum = ctx.output<T>(x.shape());
    ctx.record(sum, [=](Context& back, ConstView<T, Rank> dsum) {
      residual_backward<T, Rank>(back, dsum, x, update, dropout);
    });
  }
  const View<T, Rank> y = ctx.output<T>(x.shape());
  const auto statistics = ctx.arena.allocate<kernel::RowStatistics<T>>(Shape{x.rows()});
  kernel::norm_forward<Kind, T>(ctx.threads, {x.flat(), update ? update.flat() : ConstView<T, 2>(), dropout},
                                weights.affine(), epsilon, y.flat(), statistics, sum ? sum.flat() : View<T, 2>());
  ctx.record(y, [=](Context& back, ConstView<T, Rank> dy) {
    const auto dx = back.gradient(in).flat();
    const auto dweight = back.gradient(weights.weight), dbias = back.gradient(weights.bias);
    kernel::norm_backward<Kind, T>(back.threads, back.arena, in.flat(), weights.affine(), statistics, dy.flat(), dx,
                                   dweight, dbias);
  });
  return y;
}

}  // namespace detail

/// x (…, D) → (…, D)
template <NormKind Kind, class T, int Rank>
ConstView<T, Rank> norm(Context& ctx, ConstView<T, Rank> x, const std::type_identity_t<NormWeights<T>>& weights,
                        double epsilon) {
  return detail::norm<Kind, T, Rank>(ctx, x, {}, {}, weights, epsilon);
}

/// x (…, D); weight and bias (D), either may be null → (…, D)
template <class T, int Rank>
ConstView<T, Rank> layer_norm(Context& ctx, ConstView<T, Rank> x, std::type_identity_t<ConstView<T, 1>> weight,
                              std::type_identity_t<ConstView<T, 1>> bias, double epsilon) {
  return norm<NormKind::layer>(ctx, x, {weight, bias}, epsilon);
}

/// norm(x + dropout(update)) in one pass: both (…, D) → (…, D)
template <NormKind Kind, class T, int Rank>
ConstView<T, Rank> residual_norm(Context& ctx, ConstView<T, Rank> x, std::type_identity_t<ConstView<T, Rank>> update,
                                 double probability, const std::type_identity_t<NormWeights<T>>& weights,
                                 double epsilon) {
  ensure(x.shape() == update.shape(), "residual", "cannot add ", update.shape(), " to ", x.shape());
  return detail::norm<Kind, T, Rank>(ctx, x, update, next_dropout(ctx, probability), weights, epsilon);
}

}  // namespace op
}  // namespace eigenformer
