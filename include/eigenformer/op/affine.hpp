// y = factor·x ∘ weight + bias
#pragma once

#include <type_traits>

#include "eigenformer/core/context.hpp"
#include "eigenformer/kernel/affine.hpp"

namespace eigenformer::inline EIGENFORMER_ABI::op {

/// x (…, D); weight (D), or (1) for all elements, or null; bias (D) or null → (…, D)
template <class T, int Rank>
ConstView<T, Rank> affine(Context& ctx, ConstView<T, Rank> x, std::type_identity_t<ConstView<T, 1>> weight,
                          std::type_identity_t<ConstView<T, 1>> bias = {}, double factor = 1) {
  ensure((!weight || weight.size() == x.width() || weight.size() == 1) && (!bias || bias.size() == x.width()), "affine",
         "input ", x.shape(), " does not fit a weight of ", weight.shape(), " and a bias of ", bias.shape());
  const View<T, Rank> y = ctx.output<T>(x.shape());
  kernel::affine_forward<T>(ctx.threads, x.flat(), weight, static_cast<T>(factor), bias, y.flat());
  ctx.record(y, [=](Context& back, ConstView<T, Rank> dy) {
    const auto dx = back.gradient(x).flat();
    const auto dbias = back.gradient(bias), dweight = back.gradient(weight);
    kernel::affine_backward<T>(back.threads, back.arena, x.flat(), weight, static_cast<T>(factor), dy.flat(), dx,
                               dweight, dbias);
  });
  return y;
}

/// factor·x
template <class T, int Rank>
ConstView<T, Rank> scale(Context& ctx, ConstView<T, Rank> x, double factor) {
  return factor == 1 ? x : affine(ctx, x, {}, {}, factor);
}

}  // namespace eigenformer::op
