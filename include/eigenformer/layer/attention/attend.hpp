// What every kind of attention does with its queries, keys and values, with and without a cache.
#pragma once

#include "eigenformer/layer/attention/config.hpp"
#include "eigenformer/op/attention.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

/// q (B, N, H, E) attends to k and v (B, M, K, E); or to the caches of the call, which take up k and v first unless
/// they are filled.
template <Real T, class Score>
ConstView<T, 4> attend(Context& ctx, const AttentionCall<T>& call, ConstView<T, 4> q, ConstView<T, 4> k,
                       ConstView<T, 4> v, const op::AttentionOptions& options, const Score& score,
                       ConstView<T, 1> sinks = {}) {
  if (!call.caches) return op::attention<T>(ctx, q, k, v, options, score, sinks);
  op::check_cached(ctx, options.mask);
  KvCache<T>& cache = *call.caches;
  cache.check_window(options.mask.window);
  if (!call.filled) cache.append(ctx.threads, k, v, call.counts, options.scale);
  return op::cached_attention<T>(ctx, q, cache.view(ctx, call.counts), cache.kv_heads(), cache.head_width(),
                                 options.mask, score, sinks);
}

}  // namespace eigenformer
