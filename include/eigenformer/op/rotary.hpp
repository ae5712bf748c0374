// Rotary positions of queries and keys.
#pragma once

#include <algorithm>
#include <vector>

#include "eigenformer/core/context.hpp"
#include "eigenformer/kernel/rotary.hpp"

namespace eigenformer::inline EIGENFORMER_ABI::op {

using kernel::RotaryTable;

/// The table of these positions, shared by all layers and by queries and keys. Lives in the context.
template <class T>
RotaryTable<T> rotary_table(Context& ctx, const std::vector<double>& frequencies, double factor, RotaryLayout layout,
                            Index batch, Index tokens, const Positions& positions) {
  positions.validate("rotary", batch, tokens);
  const Shape<3> shape{positions.shared() ? (std::min)(batch, Index{1}) : batch, tokens,
                       static_cast<Index>(frequencies.size())};
  const auto cosine = ctx.arena.allocate<T>(shape), sine = ctx.arena.allocate<T>(shape);
  kernel::rotary_table<T>(ctx.threads, frequencies, factor, positions, cosine, sine);
  return {cosine, sine, layout};
}

/// x (B, N, H, E), table of (B or 1, N, R/2) → (B, N, H, E)
template <class T>
ConstView<T, 4> rotary(Context& ctx, ConstView<T, 4> x, const RotaryTable<T>& table) {
  ensure(table && (table.cosine.extent(0) == 1 || table.cosine.extent(0) == x.extent(0)) &&
             table.cosine.extent(1) == x.extent(1) && 2 * table.cosine.extent(2) <= x.extent(3),
         "rotary", "positions ", table.cosine.shape(), " (batch, tokens, pairs) do not fit heads ", x.shape());
  const View<T, 4> y = ctx.output<T>(x.shape());
  kernel::rotary<T>(ctx.threads, x, table, T{1}, {y, false});
  ctx.record(y, [=](Context& back, ConstView<T, 4> dy) {
    kernel::rotary<T>(back.threads, dy, table, T{-1}, back.gradient(x));
  });
  return y;
}

}  // namespace eigenformer::op
