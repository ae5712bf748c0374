// softmax(scale·q·kᵀ)·v for every head
#pragma once

#include <type_traits>

#include "eigenformer/core/context.hpp"
#include "eigenformer/kernel/attention.hpp"
#include "eigenformer/op/dropout.hpp"

namespace eigenformer::op {

/// What shapes attention besides q, k and v.
struct AttentionOptions {
  double scale = 1;
  Mask mask{};
  double dropout = 0;  ///< on the weights
};

/// The mask with all that it looks at kept until the backward pass.
inline Mask remembered(Context& ctx, Mask mask) {
  mask.key_lengths = ctx.remember(mask.key_lengths);
  mask.query_lengths = ctx.remember(mask.query_lengths);
  mask.prefixes = ctx.remember(mask.prefixes);
  mask.allowed = ctx.remember(mask.allowed.view);
  return mask;
}

/// query (B, N, H, E), key (B, M, K, E), value (B, M, K, E) with K dividing H → (B, N, H, E)
template <class T>
ConstView<T, 4> attention(Context& ctx, ConstView<T, 4> query, ConstView<T, 4> key, ConstView<T, 4> value,
                          const AttentionOptions& options) {
  require(query.extent(0) == key.extent(0) && key.shape() == value.shape() && query.extent(3) == key.extent(3), "attention",
          "queries ", query.shape(), ", keys ", key.shape(), " and values ", value.shape(), " do not fit");
  require(key.extent(2) > 0 && query.extent(2) % key.extent(2) == 0, "attention", key.extent(2), " key-value heads do not divide ",
          query.extent(2), " query heads");
  options.mask.check("attention", query.extent(0), query.extent(2), query.extent(1), key.extent(1));
  const Mask mask = remembered(ctx, options.mask);
  const kernel::AttentionInputs<T> in{query, key, value, static_cast<T>(options.scale), mask, next_dropout(ctx, options.dropout)};
  const View<T, 4> y = ctx.output<T>(query.shape());
  const auto rows = ctx.arena.allocate<kernel::AttentionRow<T>>(Shape{query.extent(0), query.extent(2), query.extent(1)});
  {
    const auto scratch = ctx.scratch();
    kernel::attention_forward(ctx.threads, ctx.arena, in, y, rows);
  }
  ctx.record(y, [=](Context& back, ConstView<T, 4> dy) {
    // Should they share memory, then the kernel overwrites in this order: dkey, dvalue, dquery.
    const auto dkey = back.gradient(in.key), dvalue = back.gradient(in.value), dquery = back.gradient(in.query);
    const auto scratch = back.scratch();
    kernel::attention_backward<T>(back.threads, back.arena, in, y, rows, dy, dquery, dkey, dvalue);
  });
  return y;
}

}  // namespace eigenformer::op
