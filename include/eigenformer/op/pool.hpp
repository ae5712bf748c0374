// One vector for a whole sequence.
#pragma once

#include <algorithm>

#include "eigenformer/core/context.hpp"
#include "eigenformer/op/attention.hpp"

namespace eigenformer::inline EIGENFORMER_ABI::op {

/// The mean over the tokens of each sequence: x (B, N, D), lengths (B) or null → (B, 1, D); zeros for a length of 0.
/// It is attention with equal scores, so it is skipped, masked and differentiated as that.
template <class T>
ConstView<T, 3> mean_pool(Context& ctx, ConstView<T, 3> x, ConstView<Index, 1> lengths = {}) {
  const Index batch = x.extent(0), width = x.extent(2);
  const auto zeros = [&](Index tokens) {
    const View<T, 4> view = ctx.arena.allocate<T>(Shape{batch, tokens, Index{1}, width});
    std::fill_n(view.data(), view.size(), T{0});
    return ConstView<T, 4>(view);
  };
  return attention<T>(ctx, zeros(1), zeros(x.extent(1)), x.split_last(width), {1, {.key_lengths = lengths}})
      .reshape(Shape{batch, Index{1}, width});
}

}  // namespace eigenformer::op
