// Scaled dot-product attention (Vaswani et al. 2017, equation 1): softmax(score(scale·q·kᵀ))·v for every head, with an
// online softmax over blocks of keys (Milakov and Gimelshein 2018; Dao et al. 2022): the scores of all queries against
// all keys never exist together, and blocks of keys that the mask hides are skipped.
//
// The bit guarantee: blocks of keys start at multiples of key_block, and a key that is masked contributes exactly 0,
// whatever it is, so the result for a query does not depend on other queries, on other sequences, or on how many masked
// keys there are.
//
// A product over what some of its rows must not see has weights of 0 there, and 0·∞ is NaN. So its right factor is made
// finite if it is not, and what was not finite is added afterwards, only where it is seen.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <type_traits>
#include <utility>

#include "eigenformer/core/arena.hpp"
#include "eigenformer/core/gradient.hpp"
#include "eigenformer/core/threads.hpp"
#include "eigenformer/core/view.hpp"
#include "eigenformer/kernel/dropout.hpp"
#include "eigenformer/kernel/gemm.hpp"
#include "eigenformer/kernel/kv_block.hpp"
#include "eigenformer/kernel/mask.hpp"
#include "eigenformer/kernel/score.hpp"
#include "eigenformer/kernel/simd.hpp"

namespace eigenformer::inline EIGENFORMER_ABI::kernel {

/// The sums of the weights by distance, which relative values are mixed by (Shaw et al. 2018): column distance + before
/// of (B, H, N, distances), clipped at the ends.
template <class T>
struct DistanceWeights {
  View<T, 4> sums{};         // filled by the forward pass; null: nobody asks
  ConstView<T, 4> slopes{};  // dL/d(sums), for the backward pass; null: none
  Index before = 0;
};

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
  DistanceWeights<T> distances{};

  Index batch() const { return query.extent(0); }
  Index queries() const { return query.extent(1); }
  Index heads() const { return query.extent(2); }
  Index width() const { return query.extent(3); }
  Index keys() const { return key.extent(1); }
  Index kv_heads() const { return key.extent(2); }
  Index group() const { return heads() / kv_heads(); }
  Mask::Range range(Index b, Index i) const { return mask.range(b, i, queries(), keys()); }
  ScoreRow row(Index b, Index h, Index i) const { return {b, h, i, mask.position(b, i, queries(), keys())}; }
  Index dropout_row(Index b, Index h, Index i) const { return (b * heads() + h) * queries() + i; }
  /// Which of keys first, first + 1, … a query sees.
  void see(Index b, Index h, Index i, Index first, Index count, bool* seen) const {
    range(b, i).mark(first, count, seen);
    mask.hide(b, h, i, first, count, seen, false);
  }
  /// Likewise, of which keys it takes the values.
  void take(Index b, Index h, Index i, Index first, Index count, bool* taken) const {
    see(b, h, i, first, count, taken);
    if (dropout) dropout.drop(dropout_row(b, h, i), first, count, taken);
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

  // As the forward pass sees it: sequences, each with queries of a row of the batch.
  static constexpr bool cached = false;
  Index sequences() const { return batch(); }
  Index batch_row(Index sequence) const { return sequence; }
  Index first_query(Index) const { return 0; }
  Index queries(Index) const { return queries(); }
  Index keys(Index) const { return keys(); }
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
  ConstView<T, 1> sinks{};         // (H) or null
  DistanceWeights<T> distances{};  // of (1, H, N of all, distances)

  Index heads() const { return query.extent(2); }
  Index width() const { return query.extent(3); }
  Index kv_heads() const { return kv_head_count; }
  Index group() const { return heads() / kv_heads(); }
  Mask::Range range(Index s, Index i) const {
    return Mask{.causal = causal, .window = window}.range(0, i - of[s].first, of[s].queries, of[s].keys);
  }
  ScoreRow row(Index s, Index h, Index i) const { return {0, h, i, i - of[s].first + of[s].keys - of[s].queries}; }
  void take(Index s, Index, Index i, Index first, Index count, bool* taken) const {
    range(s, i).mark(first, count, taken);
  }

  static constexpr bool cached = true;
  Index sequences() const { return of.size(); }
  Index batch_row(Index) const { return 0; }
  Index first_query(Index s) const { return of[s].first; }
  Index queries(Index s) const { return of[s].queries; }
  Index keys(Index s) const { return of[s].keys; }
};

/// What the forward pass keeps of a query: the weight of a key is e^(score − largest)·factor; both are 0 where nothing
/// may be attended to. The largest score is subtracted first, so however large it is, its own weight is exactly the
/// factor.
template <class T>
struct AttentionRow {
  T largest, factor;

  template <class V>
  V weight(V score) const {
    return exp_of_negative(score - V(largest)) * V(factor);
  }
};

/// Keys between two corrections of the running maximum: whole panels, and whole chunks of dropout's random bits.
template <class T>
inline constexpr Index key_block = 512 /
                                   std::lcm(Tile<T>::width, Dropout::chunk) * std::lcm(Tile<T>::width, Dropout::chunk);

namespace detail {

/// One head of one sequence: (tokens, E), rows `stride` apart.
template <class T>
View<T, 2> head(View<T, 4> x, Index b, Index h) {
  return {x.data() + b * x.stride(0) + h * x.stride(2), Shape<2>{x.extent(1), x.extent(3)}, Shape<2>{x.stride(1), 1}};
}

/// Panels of scale·x as it lies (rows k).
template <class T>
Panels<T> packed_rows(ConstView<T, 2> x, T scale, T* to) {
  const Panels<T> panels{to, x.extent(0), x.extent(1)};
  for (Index p = 0; p < panels.count(); ++p) {
    T* const panel = to + p * panels.depth * Tile<T>::width;
    pack_panel(x.data() + p * Tile<T>::width, x.stride(0), (std::min)(Tile<T>::width, x.width() - p * Tile<T>::width),
               x.rows(), panel);
    if (scale == 1) continue;
    for (Index i = 0; i < panels.depth * Tile<T>::width; i += Vec<T>::lanes)
      (Vec<T>::load(panel + i) * Vec<T>(scale)).store(panel + i);
  }
  return panels;
}

/// c (rows, width) = [c +] a·b over rows [k, k + depth) of b; a(i, k) = a[i·row_stride + k·k_stride].
template <class T>
void product(Index rows, Index depth, const T* a, Index row_stride, Index k_stride,
             const std::type_identity_t<StridedPanels<T>>& b, Index k, T* c, Index c_stride, bool add) {
  const RowGroups<T> groups{rows};
  for (Index p = 0; p < b.count(); ++p)
    for (Index g = 0; g < groups.count; ++g) {
      const Index row = groups.begin(g);
      any_tile<T>(groups.begin(g + 1) - row,
                  {depth, a + row * row_stride, row_stride, k_stride, b.at(p, k), b.row_stride},
                  c + row * c_stride + p * Tile<T>::width, c_stride, add,
                  (std::min)(Tile<T>::width, b.width - p * Tile<T>::width));
    }
}

/// scores (rows, b.width) over columns [from, to) of b: all of b's depth. `from` begins a panel; what is written ends
/// with a whole vector.
template <class T>
void score_product(Index rows, const T* a, Index row_stride, const std::type_identity_t<StridedPanels<T>>& b,
                   Index from, Index to, T* scores, Index stride) {
  for (Index j = from; j < to; j += Tile<T>::width)
    any_tile<T>(rows, {b.depth, a, row_stride, 1, b.at(j / Tile<T>::width, 0), b.row_stride}, scores + j - from, stride,
                false, (std::min)(Tile<T>::width, (to - j + Vec<T>::lanes - 1) / Vec<T>::lanes * Vec<T>::lanes));
}

/// A score's function on a row, in place.
template <class T, class Score>
void apply_score(const Score& score, const ScoreRow& at, Index first, Index count, T* scores) {
  if constexpr (!std::is_same_v<Score, PlainScore>) {
    const auto f = score.row(at, first, count);
    for_vec_packs<T>(
        count, [&](Index j, auto n) EIGENFORMER_INLINE_LAMBDA { store(scores + j, f(load(scores + j, n), j, n), n); });
  }
}

/// Running maximum and sum of a row of e^s. Scores come in whole vectors and begin with a panel, so the order
/// of summation depends on a score's place alone.
template <class T>
struct OnlineSoftmax {
  static constexpr int chains = Tile<T>::vectors;

  T largest = -std::numeric_limits<T>::infinity();
  Vec<T> sum{T{0}};

  OnlineSoftmax() = default;
  /// With a first score whose value is nothing.
  explicit OnlineSoftmax(T sink) {
    if (sink == -std::numeric_limits<T>::infinity()) return;
    largest = sink;
    T one[static_cast<std::size_t>(Vec<T>::lanes)] = {1};
    sum = Vec<T>::load(one);
  }

  /// f(c, j) for every vector of [0, padded): chain c, first element j.
  template <class F>
  static EIGENFORMER_INLINE void for_chains(Index padded, F&& f) {
    constexpr Index lanes = Vec<T>::lanes;
    Index j = 0;
    for (; j + chains * lanes <= padded; j += chains * lanes)
      unroll<chains>([&](auto c) EIGENFORMER_INLINE_LAMBDA { f(c, j + c * lanes); });
    unroll<chains>([&](auto c) EIGENFORMER_INLINE_LAMBDA {
      if (j + c * lanes < padded) f(c, j + c * lanes);
    });
  }

  /// What is subtracted from scores.
  T base() const { return largest == -std::numeric_limits<T>::infinity() ? T{0} : largest; }

  /// Takes more scores into account. Earlier weights, and the sum, are then to be multiplied by e^(the result −
  /// base()).
  T raise(const T* scores, Index padded) {
    Vec<T> most[static_cast<std::size_t>(chains)];
    unroll<chains>([&](auto c) EIGENFORMER_INLINE_LAMBDA { most[c] = Vec<T>(largest); });
    for_chains(padded, [&](auto c, Index j)
                           EIGENFORMER_INLINE_LAMBDA { most[c] = maximum(most[c], Vec<T>::load(scores + j)); });
    unroll<chains - 1>([&](auto c) EIGENFORMER_INLINE_LAMBDA { most[0] = maximum(most[0], most[c + 1]); });
    const T before = largest;
    largest = kernel::largest(most[0]);
    return before == -std::numeric_limits<T>::infinity() ? base() : before;
  }

  /// Turns them into weights e^(s − base()).
  void weigh(T* scores, Index padded) {
    Vec<T> total[static_cast<std::size_t>(chains)];
    unroll<chains>([&](auto c) EIGENFORMER_INLINE_LAMBDA { total[c] = Vec<T>(T{0}); });
    const T from = base();
    const auto weigh_some = [&](Index j, auto n) EIGENFORMER_INLINE_LAMBDA {
      const auto s = load(scores + j, n);
      using V = std::remove_const_t<decltype(s)>;
      const V weight = exp_of_negative(s - V(from));
      store(scores + j, weight, n);
      return weight;
    };
    Index j = 0;
    if constexpr (chains == VecPack<T>::count)
      for (; j + VecPack<T>::lanes <= padded; j += VecPack<T>::lanes) {
        const VecPack<T> weight = weigh_some(j, std::integral_constant<Index, VecPack<T>::lanes>());
        unroll<chains>([&](auto c) EIGENFORMER_INLINE_LAMBDA { total[c] = total[c] + weight.parts[c]; });
      }
    for_chains(padded - j, [&](auto c, Index offset) EIGENFORMER_INLINE_LAMBDA {
      total[c] = total[c] + weigh_some(j + offset, std::integral_constant<Index, Vec<T>::lanes>());
    });
    unroll<chains - 1>([&](auto c) EIGENFORMER_INLINE_LAMBDA { total[0] = total[0] + total[c + 1]; });
    sum = sum + total[0];
  }

  AttentionRow<T> row() const {
    const T all = kernel::sum(sum);
    return {base(), all > 0 || std::isnan(all) ? 1 / all : T{0}};
  }
};

/// The keys that any of some rows sees, as far as they lie in [begin, end).
inline Mask::Range seen_by(const Mask::Range* rows, Index count, Index begin, Index end) {
  Mask::Range all{end, begin};
  for (Index i = 0; i < count; ++i)
    if (rows[i].begin < rows[i].end) all = {(std::min)(all.begin, rows[i].begin), (std::max)(all.end, rows[i].end)};
  return {(std::max)(all.begin, begin), (std::min)(all.end, end)};
}

/// The begin of the panel of column j.
template <class T>
Index panel_begin(Index j) {
  return j / Tile<T>::width * Tile<T>::width;
}

template <class T>
bool all_finite(const T* x, Index count) {
  return sum_vectors<T>(count,
                        [&](Index i, auto n) EIGENFORMER_INLINE_LAMBDA { return load(x + i, n) * Vec<T>(T{0}); }) == 0;
}
template <class T>
bool all_finite(ConstView<T, 2> x) {
  VecPack<T> lots(T{0});
  Vec<T> rest(T{0});
  for (Index i = 0; i < x.extent(0); ++i)
    for_vec_packs<T>(x.width(), [&](Index j, auto n) EIGENFORMER_INLINE_LAMBDA {
      const auto some = load(x.row(i) + j, n);
      if constexpr (std::is_same_v<std::remove_const_t<decltype(some)>, VecPack<T>>)
        lots = fma(some, VecPack<T>(T{0}), lots);
      else rest = fma(some, Vec<T>(T{0}), rest);
    });
  unroll<VecPack<T>::count>([&](auto i) EIGENFORMER_INLINE_LAMBDA { rest = rest + lots.parts[i]; });
  return sum(rest) == 0;
}

/// y where x is finite, else z.
template <class T>
Vec<T> where_finite(Vec<T> x, Vec<T> y, Vec<T> z) {
  return choose_less(absolute(x), Vec<T>(std::numeric_limits<T>::infinity()), y, z);
}

/// packed_rows() with 0 for what is not finite, and whether there was any.
template <class T>
struct FiniteRows {
  Panels<T> panels;
  bool odd;
};
template <class T>
FiniteRows<T> finite_rows(ConstView<T, 2> x, T scale, T* to) {
  const Panels<T> panels = packed_rows<T>(x, scale, to);
  const Index size = Panels<T>::size(panels.depth, panels.width);
  if (all_finite(to, size)) return {panels, false};
  for_vectors<T>(size, [&](Index i, auto n) {
    const Vec<T> some = load(to + i, n);
    store(to + i, where_finite(some, some, Vec<T>(T{0})), n);
  });
  return {panels, true};
}

/// to += factor·scale·x where the latter two are not finite
template <class T>
void add_not_finite(const T* x, T scale, T factor, T* to, Index width) {
  for_vectors<T>(width, [&](Index e, auto n) {
    const Vec<T> term = load(x + e, n) * Vec<T>(scale), sum = load(to + e, n);
    store(to + e, where_finite(term, sum, fma(term, Vec<T>(factor), sum)), n);
  });
}

}  // namespace detail

namespace detail {

template <class T, class Inputs, class Score>
void any_attention_forward(const Threads& threads, Arena& arena, const Inputs& in, View<T, 4> output,
                           View<AttentionRow<T>, 3> rows, const Score& score) {
  constexpr bool cached = Inputs::cached;
  constexpr Index lanes = Vec<T>::lanes, tile_rows = Tile<T>::rows, keys_at_once = key_block<T>,
                  most_queries = 6 * row_block;
  constexpr T infinity = std::numeric_limits<T>::infinity();
  const Index heads = in.kv_heads(), group = in.group(), head_width = in.width();
  Index queries = 0;
  std::int64_t work = 0;
  for (Index s = 0; s < in.sequences(); ++s) {
    queries = (std::max)(queries, in.queries(s));
    work += std::int64_t{in.queries(s)} * in.keys(s);
  }

  // A task packs each block of keys and values, unless they come from a cache, and uses it for many queries, of all
  // heads that share it: of all queries if there are many heads.
  const Index pieces =
      (std::max)((queries + most_queries - 1) / most_queries,
                 (std::min)((queries + row_block - 1) / row_block, 16 / (std::max)(in.sequences() * heads, Index{1})));
  const Index piece = pieces > 0 ? (queries + pieces - 1) / pieces : 0, tasks = in.sequences() * heads * pieces;
  const Index key_size = cached ? 0 : Panels<T>::size(head_width, keys_at_once),
              value_size = Panels<T>::size(keys_at_once, head_width);
  const auto memory = arena.scratch();
  const Index thread_slots = threads.count(), states = group * piece;
  T* const scratch = arena.allocate<T>(thread_slots * (key_size + value_size + tile_rows * keys_at_once));
  Mask::Range* const range_scratch = arena.allocate<Mask::Range>(thread_slots * piece);
  auto* const softmax_scratch = arena.allocate<OnlineSoftmax<T>>(thread_slots * states);

  const auto scale_line = [](T* line, Index width, T by) {
    for_vectors<T>(width, [&](Index e, auto n) { store(line + e, load(line + e, n) * Vec<T>(by), n); });
  };
  constexpr std::int64_t least_work = 100000;  // of what a thread takes at once
  const std::int64_t grain = least_work * tasks / (std::max)(work * in.heads() * head_width, std::int64_t{1});
  threads.parallel_for(
      tasks, static_cast<Index>((std::min)(grain, std::int64_t{tasks})),
      [&](Index first_task, Index last_task, int slot) {
        for (Index task = first_task; task < last_task; ++task) {
          const Index s = task / (heads * pieces), kv = task / pieces % heads,
                      offset = (pieces - 1 - task % pieces) * piece;
          const Index b = in.batch_row(s), first = in.first_query(s) + offset,
                      count = (std::min)(piece, in.queries(s) - offset);
          if (count <= 0) continue;
          T* const packed_keys = scratch + slot * (key_size + value_size + tile_rows * keys_at_once);
          T *const packed_values = packed_keys + key_size, *const scores = packed_values + value_size;
          Mask::Range* const ranges = range_scratch + slot * piece;
          OnlineSoftmax<T>* const softmax = softmax_scratch + slot * states;

          // The rows of a tile are queries of one head; or, if there is but one query, the heads that share its keys.
          const bool heads_together = count == 1;
          const Index turns = heads_together ? 1 : group, tile_lines = heads_together ? group : count,
                      stride = in.query.stride(heads_together ? 2 : 1),
                      out_stride = output.stride(heads_together ? 2 : 1);
          const auto head_of = [&](Index turn, Index line) { return kv * group + (heads_together ? line : turn); };
          const auto query_of = [&](Index line) { return heads_together ? first : first + line; };
          const auto state_of = [&](Index turn, Index line) { return softmax + turn * tile_lines + line; };
          const auto range_of = [&](Index line) { return ranges + (heads_together ? 0 : line); };
          const auto out_line = [&](Index turn, Index line) {
            return &output(b, query_of(line), head_of(turn, line), 0);
          };
          const auto distance_line = [&](Index turn, Index line) {
            return &in.distances.sums(b, head_of(turn, line), query_of(line), 0);
          };

          for (Index i = 0; i < count; ++i) ranges[i] = in.range(s, first + i);
          for (Index turn = 0; turn < turns; ++turn)
            for (Index line = 0; line < tile_lines; ++line) {
              std::construct_at(state_of(turn, line),
                                in.sinks ? OnlineSoftmax<T>(in.sinks[head_of(turn, line)]) : OnlineSoftmax<T>());
              std::fill_n(out_line(turn, line), head_width, T{0});
              if (in.distances.sums) std::fill_n(distance_line(turn, line), in.distances.sums.extent(3), T{0});
            }
          const Mask::Range all = seen_by(ranges, count, 0, in.keys(s));
          Mask::Range common = all;  // the keys whose values all queries take
          for (Index i = 0; i < count; ++i)
            common = {(std::max)(common.begin, ranges[i].begin), (std::min)(common.end, ranges[i].end)};
          if constexpr (!cached)
            if (in.mask.allowed.view || in.dropout) common.end = common.begin;
          const RowGroups<T> groups{tile_lines};
          for (Index block = all.begin / keys_at_once * keys_at_once; block < all.end; block += keys_at_once) {
            const Index size = (std::min)(keys_at_once, all.end - block);
            const ConstView<T, 2> values = [&] {
              if constexpr (cached) return in.of[s].blocks[block / keys_at_once].value_rows(kv, size);
              else return head(in.value, b, kv).slice(0, block, size);
            }();
            const auto finite_between = [&](Index begin, Index end) {
              const Index from = std::clamp(begin - block, Index{0}, size), to = std::clamp(end - block, from, size);
              return all_finite(values.slice(0, from, to - from));
            };
            const bool odd = !finite_between(all.begin, common.begin) || !finite_between(common.end, all.end);
            const auto [key, value] = [&]() -> std::pair<StridedPanels<T>, StridedPanels<T>> {
              if constexpr (cached) {
                const KvBlock<T>& stored = in.of[s].blocks[block / keys_at_once];
                return {stored.key_panels(kv, size),
                        odd ? finite_rows<T>(values, T{1}, packed_values).panels : stored.value_panels(kv, size)};
              } else {
                return {pack_panels_transposed<T>({}, head(in.key, b, kv).slice(0, block, size), packed_keys, in.scale),
                        odd ? finite_rows<T>(values, T{1}, packed_values).panels
                            : packed_rows<T>(values, T{1}, packed_values)};
              }
            }();
            for (Index turn = 0; turn < turns; ++turn) {
              for (Index g = 0; g < groups.count; ++g) {
                const Index begin = groups.begin(g), here = groups.begin(g + 1) - begin;
                const auto [first_seen, to] = seen_by(range_of(begin), heads_together ? 1 : here, block, block + size);
                if (first_seen >= to) continue;
                const Index from = panel_begin<T>(first_seen);
                const Index padded = (to - from + lanes - 1) / lanes * lanes;
                score_product(here, &in.query(b, query_of(begin), head_of(turn, begin), 0), stride, key, from - block,
                              to - block, scores, keys_at_once);
                OnlineSoftmax<T>* const states_here = state_of(turn, begin);
                constexpr Index after = tile_rows;
                T shifts[static_cast<std::size_t>(2 * tile_rows)];  // before, which become corrections, and after
                for (Index i = 0; i < here; ++i) {
                  T* const line = scores + i * keys_at_once;
                  const Mask::Range range = *range_of(begin + i);
                  const Index seen_from = std::clamp(range.begin - from, Index{0}, padded),
                              seen_to = std::clamp((std::min)(range.end, to) - from, seen_from, padded);
                  apply_score<T>(score, in.row(s, head_of(turn, begin + i), query_of(begin + i)), from + seen_from,
                                 seen_to - seen_from, line + seen_from);
                  if constexpr (!cached)
                    in.mask.hide(b, head_of(turn, begin + i), query_of(begin + i), from + seen_from,
                                 seen_to - seen_from, line + seen_from, -infinity);
                  std::fill(line, line + seen_from, -infinity);
                  std::fill(line + seen_to, line + padded, -infinity);
                  shifts[i] = states_here[i].raise(line, padded);
                  shifts[after + i] = states_here[i].base();
                }
                for_vectors<T>(here, [&](Index i, auto n) {
                  store(shifts + i, exp_of_negative(load(shifts + i, n) - load(shifts + after + i, n)), n);
                });
                for (Index i = 0; i < here; ++i) {
                  if (shifts[i] == 1) continue;
                  states_here[i].sum = states_here[i].sum * Vec<T>(shifts[i]);
                  scale_line(out_line(turn, begin + i), head_width, shifts[i]);
                  if (in.distances.sums)
                    scale_line(distance_line(turn, begin + i), in.distances.sums.extent(3), shifts[i]);
                }
                for (Index i = 0; i < here; ++i) {
                  T* const line = scores + i * keys_at_once;
                  states_here[i].weigh(line, padded);
                  if constexpr (!cached) {
                    T factors[static_cast<std::size_t>(Dropout::chunk)];
                    for (Index j = from / Dropout::chunk * Dropout::chunk; in.dropout && j < to; j += Dropout::chunk) {
                      in.dropout.factors(in.dropout_row(b, head_of(turn, begin + i), query_of(begin + i)),
                                         j / Dropout::chunk, factors);
                      for (Index at = (std::max)(j, from); at < (std::min)(j + Dropout::chunk, from + padded);
                           at += lanes)
                        (Vec<T>::load(line + (at - from)) * Vec<T>::load(factors + (at - j))).store(line + (at - from));
                    }
                  }
                  if (in.distances.sums)
                    add_clipped(
                        distance_line(turn, begin + i), in.distances.sums.extent(3) - 1,
                        from - in.row(s, head_of(turn, begin + i), query_of(begin + i)).position + in.distances.before,
                        line, to - from);
                }
                product(here, to - first_seen, scores + (first_seen - from), keys_at_once, 1, value, first_seen - block,
                        out_line(turn, begin), out_stride, true);
                for (Index i = 0; odd && i < here; ++i) {
                  bool taken[static_cast<std::size_t>(keys_at_once)];
                  in.take(s, head_of(turn, begin + i), query_of(begin + i), first_seen, to - first_seen, taken);
                  for (Index j = first_seen; j < to; ++j)
                    if (taken[j - first_seen])
                      add_not_finite(values.row(j - block), T{1}, scores[i * keys_at_once + j - from],
                                     out_line(turn, begin + i), head_width);
                }
              }
            }
          }
          for (Index turn = 0; turn < turns; ++turn)
            for (Index line = 0; line < tile_lines; ++line) {
              const AttentionRow<T> row = state_of(turn, line)->row();
              if (rows) rows(b, head_of(turn, line), query_of(line)) = row;
              scale_line(out_line(turn, line), head_width, row.factor);
              if (in.distances.sums) scale_line(distance_line(turn, line), in.distances.sums.extent(3), row.factor);
            }
        }
      });
}

}  // namespace detail

/// output (B, N, H, E); rows (B, H, N) are kept for the backward pass.
template <class T, class Score = PlainScore>
void attention_forward(const Threads& threads, Arena& arena, const AttentionInputs<T>& in, View<T, 4> output,
                       View<AttentionRow<T>, 3> rows, const Score& score = {}) {
  detail::any_attention_forward<T>(threads, arena, in, output, rows, score);
}

/// output (1, N of all, H, E): for each query the same bits as above.
template <class T, class Score = PlainScore>
void cached_attention_forward(const Threads& threads, Arena& arena, const CachedAttentionInputs<T>& in,
                              View<T, 4> output, const Score& score = {}) {
  detail::any_attention_forward<T>(threads, arena, in, output, {}, score);
}

/// The derivatives, from output, rows and doutput. The weights are computed again, for some queries and keys at a time.
template <class T, class Score = PlainScore>
void attention_backward(const Threads& threads, Arena& arena, const AttentionInputs<T>& in, ConstView<T, 4> output,
                        ConstView<AttentionRow<T>, 3> rows, ConstView<T, 4> doutput, Gradient<T, 4> dquery,
                        Gradient<T, 4> dkey, Gradient<T, 4> dvalue, const Score& score = {},
                        Gradient<T, 1> dsinks = {}) {
  constexpr Index query_block = row_block;
  constexpr Index keys_at_once = std::lcm(Tile<T>::width, Dropout::chunk);
  constexpr bool bends = requires { score.row(ScoreRow{}, Index{}, Index{}).derivative(Vec<T>(), Index{}, Index{}); };
  constexpr bool collects = requires { score.collect(ScoreRow{}, Index{}, Index{}, static_cast<const T*>(nullptr)); };
  const Index queries = in.queries(), head_width = in.width(), keys = in.keys();
  const Index key_size = Panels<T>::size(head_width, keys), row_size = Panels<T>::size(keys, head_width),
              query_size = Panels<T>::size(query_block, head_width);
  const Index slot_size = 2 * key_size + row_size + 2 * query_size + 2 * query_block * keys_at_once + query_block;
  const auto memory = arena.scratch();
  T* const scratch = arena.allocate<T>(threads.count() * slot_size);
  const auto sink_slopes = arena.allocate<T>(Shape{in.batch(), in.heads()});
  std::fill_n(sink_slopes.data(), sink_slopes.size(), T{0});

  const auto run = [&](Index b, Index kv, int slot) {
    T* free = scratch + slot * slot_size;
    const auto take = [&](Index count) { return std::exchange(free, free + count); };
    const auto key = detail::head(in.key, b, kv), value = detail::head(in.value, b, kv);
    const Panels<T> key_columns = pack_panels_transposed<T>({}, key, take(key_size), in.scale),
                    value_columns = pack_panels_transposed<T>({}, value, take(key_size));
    const auto key_rows = detail::finite_rows<T>(key, in.scale, take(row_size));
    T *const query_memory = take(query_size), *const slope_memory = take(query_size);
    T* const weights = take(query_block * keys_at_once);  // (queries, keys), dropped
    T* const slopes = take(query_block * keys_at_once);   // of the scores, likewise
    T* const row_dot = take(query_block);                 // by query: Σ doutput∘output
    const auto clear = [&](const Gradient<T, 4>& gradient) {
      if (!gradient || gradient.add) return;
      const auto tile_lines = detail::head(gradient.view, b, kv);
      for (Index j = 0; j < keys; ++j) std::fill_n(tile_lines.row(j), head_width, T{0});
    };
    clear(dkey);
    clear(dvalue);
    for (Index h = kv * in.group(); h < (kv + 1) * in.group(); ++h) {
      const auto query = detail::head(in.query, b, h), out = detail::head(output, b, h),
                 dout = detail::head(doutput, b, h);
      for (Index first = 0; first < queries; first += query_block) {
        const Index count = (std::min)(query_block, queries - first);
        const detail::RowGroups<T> groups{count};
        const auto query_rows = detail::finite_rows<T>(query.slice(0, first, count), in.scale, query_memory);
        const auto dout_rows = detail::finite_rows<T>(dout.slice(0, first, count), T{1}, slope_memory);
        std::array<Mask::Range, static_cast<std::size_t>(query_block)> ranges;
        for (Index i = 0; i < count; ++i) {
          ranges[static_cast<std::size_t>(i)] = in.range(b, first + i);
          row_dot[i] = sum_vectors<T>(head_width, [&](Index e, auto n) {
            return load(out.row(first + i) + e, n) * load(dout.row(first + i) + e, n);
          });
          if (in.distances.slopes)
            row_dot[i] += detail::selected_dot(&in.distances.sums(b, h, first + i, 0),
                                               &in.distances.slopes(b, h, first + i, 0), in.distances.slopes.extent(3));
          if (!std::isfinite(row_dot[i]) && !in.takes_some(b, h, first + i)) row_dot[i] = 0;
          if (dquery && !dquery.add) std::fill_n(detail::head(dquery.view, b, h).row(first + i), head_width, T{0});
          if (in.sinks && dsinks) {
            const AttentionRow<T> row = rows(b, h, first + i);
            sink_slopes(b, h) -= std::exp(in.sinks[h] - row.largest) * row.factor * row_dot[i];
          }
        }
        const Mask::Range all = detail::seen_by(ranges.data(), count, 0, keys);
        for (Index block = all.begin / keys_at_once * keys_at_once; block < all.end; block += keys_at_once) {
          const Index size = (std::min)(keys_at_once, keys - block);
          bool taken[static_cast<std::size_t>(keys_at_once)];
          std::array<Mask::Range, static_cast<std::size_t>(query_block)>
              seen;  // by each group of queries, of this block, in whole panels or vectors
          for (Index g = 0; g < groups.count; ++g) {
            const Index begin = groups.begin(g), here = groups.begin(g + 1) - begin;
            const Mask::Range seen_here = detail::seen_by(ranges.data() + begin, here, block, block + size);
            const Index from = detail::panel_begin<T>(seen_here.begin) - block, to = seen_here.end - block;
            seen[static_cast<std::size_t>(g)] = {from, to};
            T *const weight_rows = weights + begin * keys_at_once, *const slope_rows = slopes + begin * keys_at_once;
            if (from < to) {
              detail::score_product(here, query.row(first + begin), query.stride(0), key_columns, block + from,
                                    block + to, weight_rows + from, keys_at_once);
              detail::score_product(here, dout.row(first + begin), dout.stride(0), value_columns, block + from,
                                    block + to, slope_rows + from, keys_at_once);
            }
            for (Index i = 0; i < here; ++i) {
              T *const weight_row = weight_rows + i * keys_at_once, *const slope_row = slope_rows + i * keys_at_once;
              const Mask::Range of_row = ranges[static_cast<std::size_t>(begin + i)];
              const Index row = first + begin + i, begin_here = std::clamp(of_row.begin - block, Index{0}, size);
              const Index end_here = std::clamp(of_row.end - block, begin_here, size);
              const auto zero = [&](Index one, Index other) {
                std::fill(weight_row + one, weight_row + other, T{0});
                std::fill(slope_row + one, slope_row + other, T{0});
              };
              T factors[static_cast<std::size_t>(keys_at_once)];
              for (Index j = 0; in.dropout && j < end_here; j += Dropout::chunk)
                in.dropout.factors(in.dropout_row(b, h, row), (block + j) / Dropout::chunk, factors + j);
              const AttentionRow<T> statistics = rows(b, h, row);
              const ScoreRow at = in.row(b, h, row);
              const auto differentiate = [&](Index j, auto n) EIGENFORMER_INLINE_LAMBDA {  // by the score
                const auto bent = load(weight_row + j, n, -std::numeric_limits<T>::infinity());
                using V = std::remove_const_t<decltype(bent)>;
                auto weight = statistics.weight(bent);
                auto slope = load(slope_row + j, n);
                if (in.distances.slopes)
                  slope = slope + detail::clipped_line(slope, &in.distances.slopes(b, h, row, 0),
                                                       in.distances.slopes.extent(3) - 1,
                                                       block + j - at.position + in.distances.before);
                auto dropped = weight;
                if (in.dropout) {
                  const auto factor = load(factors + j, n);
                  slope = surviving(slope, factor);
                  dropped = surviving(dropped, factor);
                }
                slope = weight * (slope - V(row_dot[i + begin]));
                if (in.mask.allowed.view) {
                  const V lowest(std::numeric_limits<T>::lowest()), none(T{0});  // hidden is what is lower
                  dropped = choose_less(bent, lowest, none, dropped);
                  slope = choose_less(bent, lowest, none, slope);
                }
                store(weight_row + j, dropped, n);
                store(slope_row + j, slope, n);
              };
              const Index length = end_here - begin_here;
              T raw[static_cast<std::size_t>(keys_at_once)];
              if constexpr (bends) std::copy(weight_row + begin_here, weight_row + end_here, raw + begin_here);
              detail::apply_score<T>(score, at, block + begin_here, length, weight_row + begin_here);
              in.mask.hide(b, h, row, block + begin_here, length, weight_row + begin_here,
                           -std::numeric_limits<T>::infinity());
              if constexpr (bends) in.mask.hide(b, h, row, block + begin_here, length, raw + begin_here, T{0});
              for_vec_packs<T>(length, [&](Index offset, auto n)
                                           EIGENFORMER_INLINE_LAMBDA { differentiate(begin_here + offset, n); });
              if constexpr (collects) score.collect(at, block + begin_here, length, slope_row + begin_here);
              if constexpr (bends) {
                const auto f = score.row(at, block + begin_here, length);
                for_vec_packs<T>(length, [&](Index offset, auto n) EIGENFORMER_INLINE_LAMBDA {
                  T* const to_slope = slope_row + begin_here + offset;
                  store(to_slope, load(to_slope, n) * f.derivative(load(raw + begin_here + offset, n), offset, n), n);
                });
              }
              zero(0, begin_here);
              zero(end_here, size);
            }
            if (dquery && from < to) {
              const auto to_rows = detail::head(dquery.view, b, h);
              detail::product(here, to - from, slope_rows + from, keys_at_once, 1, key_rows.panels, block + from,
                              to_rows.row(first + begin), to_rows.stride(0), true);
              for (Index i = 0; key_rows.odd && i < here; ++i) {
                in.see(b, h, first + begin + i, block, size, taken);
                for (Index j = from; j < to; ++j)
                  if (taken[j])
                    detail::add_not_finite(key.row(block + j), in.scale, slope_rows[i * keys_at_once + j],
                                           to_rows.row(first + begin + i), head_width);
              }
            }
          }
          // Each group of keys gets what the queries between the first and the last that see one of them have to give.
          const detail::RowGroups<T> key_groups{size};
          for (Index k = 0; k < key_groups.count; ++k) {
            const Index begin = key_groups.begin(k), here = key_groups.begin(k + 1) - begin;
            Index one = 0, other = groups.count;
            const auto sees = [&](Index g) {
              const Mask::Range range = seen[static_cast<std::size_t>(g)];
              return range.begin < begin + here && range.end > begin;
            };
            while (one < other && !sees(one)) ++one;
            while (one < other && !sees(other - 1)) --other;
            const Index query_begin = groups.begin(one), depth = groups.begin(other) - query_begin;
            if (one >= other) continue;
            const auto give = [&](const Gradient<T, 4>& gradient, const T* left, const Panels<T>& right) {
              if (!gradient) return;
              const auto to = detail::head(gradient.view, b, kv);
              detail::product(here, depth, left + query_begin * keys_at_once + begin, 1, keys_at_once, right,
                              query_begin, to.row(block + begin), to.stride(0), true);
            };
            give(dvalue, weights, dout_rows.panels);
            give(dkey, slopes, query_rows.panels);
          }
          const auto give_odd = [&](const Gradient<T, 4>& gradient, const T* left, ConstView<T, 2> right, T scale,
                                    Index i) {
            if (detail::all_finite(right.slice(0, first + i, 1))) return;
            const auto to = detail::head(gradient.view, b, kv);
            for (Index j = 0; j < size; ++j)
              if (taken[j])
                detail::add_not_finite(right.row(first + i), scale, left[i * keys_at_once + j], to.row(block + j),
                                       head_width);
          };
          for (Index i = 0; dout_rows.odd && dvalue && i < count; ++i) {
            in.take(b, h, first + i, block, size, taken);
            give_odd(dvalue, weights, dout, T{1}, i);
          }
          for (Index i = 0; query_rows.odd && dkey && i < count; ++i) {
            in.see(b, h, first + i, block, size, taken);
            give_odd(dkey, slopes, query, in.scale, i);
          }
        }
      }
    }
  };
  // Where a score's gradient is shared, those who share take turns.
  Index batches = in.batch(), heads_at_once = 1;
  if constexpr (collects) {
    if (score.shared_by_batch()) batches = 1;
    if (score.shared_by_heads()) heads_at_once = in.kv_heads();
  }
  for (Index start = 0; start < in.batch(); start += batches)
    threads.parallel_for(batches * in.kv_heads(), heads_at_once, [&](Index begin, Index end, int slot) {
      for (Index task = begin; task < end; ++task) run(start + task / in.kv_heads(), task % in.kv_heads(), slot);
    });
  for (Index h = 0; in.sinks && dsinks && h < in.heads(); ++h) {
    T total = dsinks.add ? dsinks.view[h] : T{0};
    for (Index b = 0; b < in.batch(); ++b) total += sink_slopes(b, h);
    dsinks.view[h] = total;
  }
}

}  // namespace eigenformer::kernel
