// y = (x − mean) / √(variance + ε) ∘ weight + bias
#pragma once

#include <type_traits>

#include "eigenformer/core/context.hpp"
#include "eigenformer/kernel/norm.hpp"

namespace eigenformer::op {

/// x (…, D); weight and bias (D), either may be null → (…, D)
template <class T, int Rank>
ConstView<T, Rank> layer_norm(Context& ctx, ConstView<T, Rank> x, std::type_identity_t<ConstView<T, 1>> weight,
                              std::type_identity_t<ConstView<T, 1>> bias, double epsilon) {
  require((!weight || weight.size() == x.width()) && (!bias || bias.size() == x.width()), "layer_norm", "input ", x.shape(),
          " does not fit a weight of ", weight.shape(), " and a bias of ", bias.shape());
  const View<T, Rank> y = ctx.output<T>(x.shape());
  const auto statistics = ctx.arena.allocate<kernel::RowStatistics<T>>(Shape{x.rows()});
  kernel::layer_norm_forward<T>(ctx.threads, x.flat(), weight, bias, epsilon, y.flat(), statistics);
  ctx.record(y, [=](Context& back, ConstView<T, Rank> dy) {
    const auto dx = back.gradient(x).flat();
    const auto dweight = back.gradient(weight), dbias = back.gradient(bias);
    const auto scratch = back.scratch();
    kernel::layer_norm_backward<T>(back.threads, back.arena, x.flat(), weight, statistics, dy.flat(), dx, dweight, dbias);
  });
  return y;
}

}  // namespace eigenformer::op
