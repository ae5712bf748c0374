// Dropout, and the residual sum that it usually ends in. On iff the context has a random stream.
#pragma once

#include <type_traits>

#include "eigenformer/core/context.hpp"
#include "eigenformer/kernel/dropout.hpp"

namespace eigenformer::inline EIGENFORMER_ABI::op {

/// The next site of the context's stream; off without a stream or with probability 0.
inline kernel::Dropout next_dropout(Context& ctx, double probability) {
  ensure(probability >= 0 && probability < 1, "dropout", "probability ", probability, " is not in [0, 1)");
  if (!ctx.random || probability == 0) return {};
  return {RandomSite(*ctx.random), probability};
}

/// dL/dx and dL/d(update) of x + dropout(update)
template <class T, int Rank>
void residual_backward(Context& back, ConstView<T, Rank> dy, ConstView<T, Rank> x, ConstView<T, Rank> update,
                       const kernel::Dropout& dropout) {
  kernel::dropout_backward(back.threads, dy.flat(), {}, back.gradient(x).flat());
  kernel::dropout_backward(back.threads, dy.flat(), dropout, back.gradient(update).flat());
}

/// x + dropout(update), both (…, D)
template <class T, int Rank>
ConstView<T, Rank> residual(Context& ctx, ConstView<T, Rank> x, std::type_identity_t<ConstView<T, Rank>> update,
                            double probability = 0) {
  ensure(x.shape() == update.shape(), "residual", "cannot add ", update.shape(), " to ", x.shape());
  const kernel::Dropout dropout = next_dropout(ctx, probability);
  const View<T, Rank> y = ctx.output<T>(x.shape());
  kernel::dropout_forward<T>(ctx.threads, update.flat(), x.flat(), dropout, y.flat());
  ctx.record(y,
             [=](Context& back, ConstView<T, Rank> dy) { residual_backward<T, Rank>(back, dy, x, update, dropout); });
  return y;
}

/// x + y, both (…, D)
template <class T, int Rank>
ConstView<T, Rank> add(Context& ctx, ConstView<T, Rank> x, std::type_identity_t<ConstView<T, Rank>> y) {
  return residual(ctx, x, y);
}

/// x (…, D), with elements set to 0 or multiplied by 1/(1 − p); x itself when off.
template <class T, int Rank>
ConstView<T, Rank> dropout(Context& ctx, ConstView<T, Rank> x, double probability) {
  const kernel::Dropout dropout = next_dropout(ctx, probability);
  if (!dropout) return x;
  const View<T, Rank> y = ctx.output<T>(x.shape());
  kernel::dropout_forward<T>(ctx.threads, x.flat(), {}, dropout, y.flat());
  ctx.record(y, [=](Context& back, ConstView<T, Rank> dy) {
    kernel::dropout_backward(back.threads, dy.flat(), dropout, back.gradient(x).flat());
  });
  return y;
}

}  // namespace eigenformer::op
