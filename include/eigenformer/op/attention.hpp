// softmax(score(scale·q·kᵀ))·v for every head
#pragma once

#include <algorithm>
#include <type_traits>

#include "eigenformer/core/context.hpp"
#include "eigenformer/kernel/attention.hpp"
#include "eigenformer/op/dropout.hpp"
#include "eigenformer/op/relative.hpp"

namespace eigenformer::inline EIGENFORMER_ABI::op {

// What happens to the scores: a kernel's Score (kernel/score.hpp), which holds views and numbers only; or, if it has a
// gradient, a type whose forward<T>() is that and whose backward<T>(ctx) is the same with a place for the gradient.
// validate(B, H, N, M, mask) may throw where it does not fit; record(ctx, y) may record what else it writes.

namespace detail {

/// Throws unless there is a column of distance 0.
inline void check_before(Index before, Index distances) {
  ensure(before >= 0 && before < distances, "attention", "distance 0 at ", before, " of ", distances, " distances");
}

/// A place that scores add to: zero, if it held nothing.
template <class T, int Rank>
Gradient<T, Rank> to_add_to(Gradient<T, Rank> gradient) {
  if (gradient && !gradient.add) gradient.view.matrix().setZero();
  return {gradient.view, true};
}

/// (B, N, H, …) as (B, H, N, …)
template <class U>
View<U, 4> heads_first(View<U, 4> x) {
  return {x.data(), {x.extent(0), x.extent(2), x.extent(1), x.extent(3)}, {x.stride(0), x.stride(2), x.stride(1), 1}};
}

template <class Score>
void validate_score(const Score& score, Index batch, Index heads, Index queries, Index keys, const Mask& mask) {
  if constexpr (requires { score.validate(batch, heads, queries, keys, mask); })
    score.validate(batch, heads, queries, keys, mask);
}

template <class T, class Score>
auto forward_score(const Score& score) {
  if constexpr (requires { score.template forward<T>(); }) return score.template forward<T>();
  else return score;
}
template <class T, class Score>
auto backward_score(Context& back, const Score& score) {
  if constexpr (requires { score.template backward<T>(back); }) return score.template backward<T>(back);
  else return score;
}

}  // namespace detail

/// s + bias of the distance
template <class T>
struct DistanceScore {
  DistanceBias<T> distances;

  template <class>
  kernel::DistanceScore<T> forward() const {
    return {by_head(distances.bias), distances.before, {}};
  }
  template <class>
  kernel::DistanceScore<T> backward(Context& back) const {
    const auto gradient = detail::to_add_to(back.gradient(distances.bias));
    return {by_head(distances.bias), distances.before, {gradient ? by_head(gradient.view) : View<T, 4>(), true}};
  }
  void validate(Index, Index heads, Index, Index, const Mask&) const {
    ensure(distances && distances.bias.extent(0) == heads && distances.bias.extent(1) > 0, "attention",
           "biases of distances ", distances.bias.shape(), " do not fit ", heads, " heads");
    detail::check_before(distances.before, distances.bias.extent(1));
  }

 private:
  template <class U>
  static View<U, 4> by_head(View<U, 2> x) {
    return {x.data(), {1, x.extent(0), 1, x.extent(1)}, {0, x.stride(0), 0, 1}};
  }
};

/// s + a bias of every query and distance, logits (B, N, H, distances): q·a of relative keys a (Shaw et al. 2018)
template <class T>
struct RelativeKeyScore {
  ConstView<T, 4> logits;
  Index before;

  template <class>
  kernel::DistanceScore<T> forward() const {
    return {detail::heads_first(logits), before, {}};
  }
  template <class>
  kernel::DistanceScore<T> backward(Context& back) const {
    const auto gradient = detail::to_add_to(back.gradient(logits));
    return {detail::heads_first(logits), before, {gradient ? detail::heads_first(gradient.view) : View<T, 4>(), true}};
  }
  void validate(Index batch, Index heads, Index queries, Index, const Mask&) const {
    ensure(
        logits.extent(0) == batch && logits.extent(1) == queries && logits.extent(2) == heads && logits.extent(3) > 0,
        "attention", "relative logits ", logits.shape(), " do not fit ", batch, " sequences of ", queries,
        " queries and ", heads, " heads");
    detail::check_before(before, logits.extent(3));
  }
};

/// Any score, and the sums of the weights by distance, (B, N, H, distances) from ctx.output(), column distance +
/// before: relative values are mixed by these (Shaw et al. 2018).
template <class T, class Score = kernel::PlainScore>
struct DistanceSums {
  Score score;
  View<T, 4> sums;
  Index before;

  template <class>
  auto forward() const {
    return summing(detail::forward_score<T>(score), {});
  }
  template <class>
  auto backward(Context& back) const {
    const ConstView<T, 4> dsums = back.gradient_so_far(sums);
    return summing(detail::backward_score<T>(back, score), dsums ? detail::heads_first(dsums) : ConstView<T, 4>());
  }
  void validate(Index batch, Index heads, Index queries, Index keys, const Mask& mask) const {
    detail::validate_score(score, batch, heads, queries, keys, mask);
    ensure(sums.extent(0) == batch && sums.extent(1) == queries && sums.extent(2) == heads, "attention",
           "sums of distances ", sums.shape(), " do not fit ", batch, " sequences of ", queries, " queries and ", heads,
           " heads");
    detail::check_before(before, sums.width());
  }
  /// Lets the derivative of attention, whose output is y, run although nothing else may depend on y.
  void record(Context& ctx, View<T, 4> y) const {
    ctx.record(sums, [y](Context& back, ConstView<T, 4>) { detail::to_add_to(back.gradient(y)); });
  }

 private:
  template <class Inner>
  kernel::DistanceSums<T, Inner> summing(const Inner& inner, ConstView<T, 4> dsums) const {
    return {inner, detail::heads_first(sums), dsums, before};
  }
};

/// s + scale·query·key of the distance: query (B, N, H, E), key (H, E, distances), column distance + before (Dai et
/// al. 2019)
template <class T>
struct RelativeProductScore {
  using Kernel = kernel::RelativeProductScore<T, kernel::key_block<T>>;

  ConstView<T, 4> query;
  ConstView<T, 3> key;
  Index before;
  double scale;

  template <class>
  Kernel forward() const {
    return {query, key, before, static_cast<T>(scale), {}, {}};
  }
  template <class>
  Kernel backward(Context& back) const {
    Kernel score = forward<T>();
    score.dquery = detail::to_add_to(back.gradient(query));
    score.dkey = detail::to_add_to(back.gradient(key));
    return score;
  }
  void validate(Index batch, Index heads, Index queries, Index keys, const Mask& mask) const {
    const Index after = mask.causal && !mask.prefixes ? 0 : queries - 1;  // the furthest key after its query
    ensure(query.extent(0) == batch && query.extent(1) == queries && query.extent(2) == heads &&
               key.extent(0) == heads && key.extent(1) == query.extent(3),
           "attention", "relative queries ", query.shape(), " and keys ", key.shape(), " do not fit each other, or ",
           heads, " heads");
    ensure(before >= keys - 1 && before <= key.extent(2) - 1 - after, "attention", "relative keys ", key.shape(),
           ", distance 0 at ", before, ", do not reach ", keys - 1, " tokens back and ", after, " forth");
  }
};

/// s + bias (B, H, N, M), an extent of 1 stands for all of B, H or N
template <class T>
struct BiasScore {
  ConstView<T, 4> bias;

  template <class>
  kernel::BiasScore<T> forward() const {
    return {bias, {}};
  }
  template <class>
  kernel::BiasScore<T> backward(Context& back) const {
    return {bias, detail::to_add_to(back.gradient(bias))};
  }
  void validate(Index batch, Index heads, Index queries, Index keys, const Mask&) const {
    const Shape<4> full{batch, heads, queries, keys};
    for (int axis = 0; axis < 4; ++axis)
      ensure(bias.extent(axis) == full[axis] || (axis < 3 && bias.extent(axis) == 1), "attention", "a bias of ",
             bias.shape(), " does not fit scores of ", full, " (batch, heads, queries, keys)");
  }
};

/// What shapes attention besides q, k and v.
struct AttentionOptions {
  double scale = 1;
  Mask mask{};
  double dropout = 0;  ///< on the weights
};

/// The mask with all that it looks at kept until the backward pass.
inline Mask saved_for_backward(Context& ctx, Mask mask) {
  mask.key_lengths = ctx.save_for_backward(mask.key_lengths);
  mask.query_lengths = ctx.save_for_backward(mask.query_lengths);
  mask.prefixes = ctx.save_for_backward(mask.prefixes);
  mask.allowed = ctx.save_for_backward(mask.allowed.view);
  return mask;
}

/// query (B, N, H, E), key (B, M, K, E), value (B, M, K, E) with K dividing H; sinks (H) or null: scores of nothing →
/// (B, N, H, E)
template <class T, class Score = kernel::PlainScore>
ConstView<T, 4> attention(Context& ctx, ConstView<T, 4> query, ConstView<T, 4> key, ConstView<T, 4> value,
                          const AttentionOptions& options, const Score& score = {}, ConstView<T, 1> sinks = {}) {
  ensure(query.extent(0) == key.extent(0) && key.shape() == value.shape() && query.extent(3) == key.extent(3),
         "attention", "queries ", query.shape(), ", keys ", key.shape(), " and values ", value.shape(), " do not fit");
  ensure(key.extent(2) > 0 && query.extent(2) % key.extent(2) == 0, "attention", key.extent(2),
         " key-value heads do not divide ", query.extent(2), " query heads");
  options.mask.validate("attention", query.extent(0), query.extent(2), query.extent(1), key.extent(1));
  ensure(!sinks || sinks.size() == query.extent(2), "attention", sinks.size(), " sinks do not fit ", query.extent(2),
         " heads");
  detail::validate_score(score, query.extent(0), query.extent(2), query.extent(1), key.extent(1), options.mask);
  const Mask mask = saved_for_backward(ctx, options.mask);
  const kernel::AttentionInputs<T> in{
      query, key, value, static_cast<T>(options.scale), mask, next_dropout(ctx, options.dropout), sinks};
  const View<T, 4> y = ctx.output<T>(query.shape());
  const auto rows =
      ctx.arena.allocate<kernel::AttentionRow<T>>(Shape{query.extent(0), query.extent(2), query.extent(1)});
  kernel::attention_forward(ctx.threads, ctx.arena, in, y, rows, detail::forward_score<T>(score));
  ctx.record(y, [=](Context& back, ConstView<T, 4> dy) {
    // Should they share memory, then the kernel overwrites in this order: dkey, dvalue, dquery.
    const auto dkey = back.gradient(in.key), dvalue = back.gradient(in.value), dquery = back.gradient(in.query);
    const auto dsinks = back.gradient(in.sinks);
    kernel::attention_backward<T>(back.threads, back.arena, in, y, rows, dy, dquery, dkey, dvalue,
                                  detail::backward_score<T>(back, score), dsinks);
  });
  if constexpr (requires { score.record(ctx, y); }) score.record(ctx, y);  // runs before the above
  return y;
}

/// What a cache allows; to be asked before it takes up new tokens.
inline void check_cached(const Context& ctx, const Mask& mask) {
  ensure(!ctx.tape && !ctx.random, "attention", "passes with a cache are neither recorded nor with dropout");
  ensure(!mask.key_lengths && !mask.query_lengths && !mask.prefixes && !mask.allowed.view, "attention",
         "with a cache, a mask is causal or has a window");
  mask.check_window("attention");
}

/// The same with keys and values from caches, for queries (1, N of all, H, E) of their sequences, one after the
/// other; the last query of a sequence is its last key's. The mask is causal, has a window, or allows everything. Not
/// recorded.
template <class T, class Score = kernel::PlainScore>
ConstView<T, 4> cached_attention(Context& ctx, ConstView<T, 4> query,
                                 ConstView<typename kernel::CachedAttentionInputs<T>::Sequence, 1> sequences,
                                 Index kv_heads, Index head_width, const Mask& mask, const Score& score = {},
                                 ConstView<T, 1> sinks = {}) {
  const Index heads = query.extent(2);
  check_cached(ctx, mask);
  Index queries = 0, longest = 0;
  for (Index s = 0; s < sequences.size(); ++s) {
    queries += sequences[s].queries;
    longest = (std::max)(longest, sequences[s].keys);
  }
  ensure(query.extent(0) == 1 && queries == query.extent(1), "attention", "queries ", query.shape(),
         " are not those of ", queries, " tokens");
  ensure(head_width == query.extent(3), "attention", "keys of width ", head_width, " do not fit queries ",
         query.shape());
  ensure(kv_heads > 0 && heads % kv_heads == 0, "attention", kv_heads, " key-value heads do not divide ", heads,
         " query heads");
  ensure(!sinks || sinks.size() == heads, "attention", sinks.size(), " sinks do not fit ", heads, " heads");
  detail::validate_score(score, 1, heads, queries, longest, mask);
  const View<T, 4> y = ctx.output<T>(query.shape());
  const kernel::CachedAttentionInputs<T> in{query, sequences, kv_heads, mask.causal, mask.window, sinks};
  kernel::cached_attention_forward<T>(ctx.threads, ctx.arena, in, y, detail::forward_score<T>(score));
  return y;
}

}  // namespace eigenformer::op
