// What attention reads: queries, keys and values as they lie, or queries against the keys and values of caches.
#pragma once

#include <algorithm>
#include <numeric>

#include "eigenformer/core/view.hpp"
#include "eigenformer/kernel/dropout.hpp"
#include "eigenformer/kernel/gemm.hpp"
#include "eigenformer/kernel/kv_block.hpp"
#include "eigenformer/kernel/mask.hpp"
#include "eigenformer/kernel/score.hpp"

namespace eigenformer::inline EIGENFORMER_ABI::kernel {

namespace detail {

/// Of the random numbers of dropout, the row of a query's weights: (b·H + h)·N + i for queries (B, N, H, E).
template <class T>
Index dropout_row(ConstView<T, 4> query, const ScoreRow& at) {
  return (at.b * query.extent(2) + at.h) * query.extent(1) + at.i;
}

/// Which of keys first, first + 1, … a query sees, of those in its range.
void see(const auto& in, Mask::Range range, const ScoreRow& at, Index first, Index count, bool* seen) {
  range.mark(first, count, seen);
  in.mask.hide(at.b, at.h, at.i, first, count, seen, false);
}
/// Of those that it sees, the ones whose values it takes.
void take(const auto& in, const ScoreRow& at, Index first, Index count, bool* seen) {
  if (in.dropout) in.dropout.drop(dropout_row(in.query, at), first, count, seen);
}

}  // namespace detail

/// Query head h uses key-value head h / (H/K); H is a multiple of K. Any strides, so heads may lie side by side in a
/// row.
template <class T>
struct AttentionInputs {
  ConstView<T, 4> query;  // (B, N, H, E)
  ConstView<T, 4> key;    // (B, M, K, E)
  ConstView<T, 4> value;  // (B, M, K, E)
  T scale;
  Mask mask{};
  Dropout dropout{};        // on the weights, row (b·H + h)·N + n, column m
  ConstView<T, 1> sinks{};  // (H) or null: scores that take part in the softmax without a value (gpt-oss: OpenAI 2025)

  Index batch() const { return query.extent(0); }
  Index queries() const { return query.extent(1); }
  Index heads() const { return query.extent(2); }
  Index width() const { return query.extent(3); }
  Index keys() const { return key.extent(1); }
  Index kv_heads() const { return key.extent(2); }
  Index group() const { return heads() / kv_heads(); }
  Mask::Range range(Index b, Index i) const { return mask.range(b, i, queries(), keys()); }
  ScoreRow row(Index b, Index h, Index i) const { return {b, h, i, mask.position(b, i, queries(), keys())}; }
  /// Which of keys first, first + 1, … a query sees.
  void see(Index b, Index h, Index i, Index first, Index count, bool* seen) const {
    detail::see(*this, range(b, i), row(b, h, i), first, count, seen);
  }
  /// Likewise, of which keys it takes the values.
  void take(Index b, Index h, Index i, Index first, Index count, bool* taken) const {
    see(b, h, i, first, count, taken);
    detail::take(*this, row(b, h, i), first, count, taken);
  }
  /// Whether it takes any.
  bool takes_some(Index b, Index h, Index i) const {
    constexpr Index some = 64;
    bool taken[static_cast<std::size_t>(some)];
    for (Index j = 0; j < keys(); j += some) {
      const Index count = (std::min)(some, keys() - j);
      take(b, h, i, j, count, taken);
      if (std::find(taken, taken + count, true) != taken + count) return true;
    }
    return false;
  }
};

/// Queries of several sequences, one after the other without padding, against the keys and values of their caches.
template <class T>
struct CachedAttentionInputs {
  struct Sequence {
    Index first, queries, keys;  // its queries are those from `first` on; the last one is the last key's
    const KvBlock<T>* blocks;    // of key_block tokens each; those that no query sees may have no memory
  };

  ConstView<T, 4> query;  // (1, N of all, H, E)
  ConstView<Sequence, 1> of;
  Index kv_head_count;
  bool causal = false;
  Index window = 0;
  ConstView<T, 1> sinks{};  // (H) or null
};

/// Keys between two corrections of the running maximum: whole panels, and whole chunks of dropout's random bits.
template <class T>
inline constexpr Index key_block = 512 /
                                   std::lcm(Tile<T>::width, Dropout::chunk) * std::lcm(Tile<T>::width, Dropout::chunk);

}  // namespace eigenformer::kernel
