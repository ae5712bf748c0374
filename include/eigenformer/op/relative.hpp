// Learned biases of distances, from buckets.
#pragma once

#include <limits>

#include "eigenformer/core/context.hpp"
#include "eigenformer/kernel/relative.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

/// A bias for every head and distance key − query: column distance + before of (H, distances); beyond the ends, that of
/// the end.
template <class T>
struct DistanceBias {
  ConstView<T, 2> bias{};
  Index before = 0;

  explicit operator bool() const { return static_cast<bool>(bias); }
};

namespace op {

/// table (buckets, H) → the biases of all distances between `keys` tokens, from 1 − keys to keys − 1
template <class T>
DistanceBias<T> spread_buckets(Context& ctx, ConstView<T, 2> table, const RelativeBuckets& buckets, Index keys) {
  buckets.validate();
  ensure(keys <= (std::numeric_limits<Index>::max)() / 2, "relative", "there are no distances between ", keys,
         " tokens");
  ensure(table.extent(0) == buckets.count, "relative", "a table of ", table.shape(), " has not ", buckets.count,
         " buckets");
  const Index before = keys > 0 ? keys - 1 : 0;
  const View<T, 2> bias = ctx.output<T>(Shape{table.extent(1), 2 * before + 1});
  kernel::spread_buckets(table, buckets, before, bias);
  ctx.record(bias, [=](Context& back, ConstView<T, 2> dbias) {
    kernel::collect_buckets(dbias, buckets, before, back.gradient(table));
  });
  return {bias, before};
}

}  // namespace op
}  // namespace eigenformer
