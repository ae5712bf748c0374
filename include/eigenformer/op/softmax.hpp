// Softmax and log-softmax over the last axis. An empty axis gives an empty result.
#pragma once

#include "eigenformer/core/context.hpp"
#include "eigenformer/kernel/softmax.hpp"

namespace eigenformer::inline EIGENFORMER_ABI::op {

/// x (…, V) → (…, V). A row of nothing but −∞ gives NaN: it has no distribution.
template <class T, int Rank>
ConstView<T, Rank> softmax(Context& ctx, ConstView<T, Rank> x) {
  const View<T, Rank> y = ctx.output<T>(x.shape());
  kernel::softmax_forward<T>(ctx.threads, x.flat(), y.flat());
  ctx.record(y, [=](Context& back, ConstView<T, Rank> dy) {
    kernel::softmax_backward<T>(back.threads, y.flat(), dy.flat(), back.gradient(x).flat());
  });
  return y;
}

/// x (…, V) → (…, V)
template <class T, int Rank>
ConstView<T, Rank> log_softmax(Context& ctx, ConstView<T, Rank> x) {
  const View<T, Rank> y = ctx.output<T>(x.shape());
  kernel::log_softmax_forward<T>(ctx.threads, x.flat(), y.flat());
  ctx.record(y, [=](Context& back, ConstView<T, Rank> dy) {
    kernel::log_softmax_backward<T>(back.threads, y.flat(), dy.flat(), back.gradient(x).flat());
  });
  return y;
}

}  // namespace eigenformer::op
