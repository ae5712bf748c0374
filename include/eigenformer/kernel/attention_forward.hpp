// The forward pass of attention, in tiles of some rows × key_block keys: score, mask, rescale, weigh, accumulate.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <type_traits>

#include "eigenformer/core/arena.hpp"
#include "eigenformer/core/threads.hpp"
#include "eigenformer/core/view.hpp"
#include "eigenformer/kernel/attention_inputs.hpp"
#include "eigenformer/kernel/attention_products.hpp"
#include "eigenformer/kernel/online_softmax.hpp"
#include "eigenformer/kernel/score.hpp"

namespace eigenformer::inline EIGENFORMER_ABI::kernel {
namespace detail {

/// Keys and values as they lie, or from caches: one type, so that the pass is compiled once.
template <class T>
struct ForwardInputs {
  using CachedSequence = typename CachedAttentionInputs<T>::Sequence;
  /// Queries first, first + 1, … of row b of the batch, and the cached blocks, if any.
  struct Sequence {
    Index b, first, queries, keys;
    const KvBlock<T>* blocks;
  };

  ConstView<T, 4> query;           // (B, N, H, E)
  ConstView<T, 4> key{}, value{};  // (B, M, K, E) unless cached
  T scale{};                       // of the queries, unless cached
  Index kv_heads;
  Mask mask{};
  Dropout dropout{};
  ConstView<T, 1> sinks{};
  bool cached = false;
  ConstView<CachedSequence, 1> of{};

  ForwardInputs(const AttentionInputs<T>& in)
      : query(in.query), key(in.key), value(in.value), scale(in.scale), kv_heads(in.kv_heads()), mask(in.mask),
        dropout(in.dropout), sinks(in.sinks) {}
  ForwardInputs(const CachedAttentionInputs<T>& in)
      : query(in.query), kv_heads(in.kv_head_count), mask{.causal = in.causal, .window = in.window}, sinks(in.sinks),
        cached(true), of(in.of) {}

  Index width() const { return query.extent(3); }
  Index group() const { return query.extent(2) / kv_heads; }
  Index sequences() const { return cached ? of.size() : query.extent(0); }
  Sequence sequence(Index s) const {
    if (cached) return {0, of[s].first, of[s].queries, of[s].keys, of[s].blocks};
    return {s, 0, query.extent(1), key.extent(1), nullptr};
  }
};

/// How the work is cut, by shape alone. A task packs each block of keys and values, unless they come from a cache,
/// widens those of a narrow one, unless there are few queries, and uses it for many of them, of all heads that share
/// it: of all queries if there are many heads.
template <class T>
struct ForwardPlan {
  Index pieces, piece, tasks;  // of the queries of a sequence, queries of each, and of all sequences and heads
  Index grain;                 // tasks that a thread takes at once
  Index key_size, value_size;  // elements of a packed block

  explicit ForwardPlan(const ForwardInputs<T>& in) {
    constexpr Index most_queries = 6 * row_block;
    constexpr std::int64_t least_work = 100000;  // of what a thread takes at once
    Index queries = 0;
    std::int64_t work = 0;
    bool narrow = false;
    for (Index s = 0; s < in.sequences(); ++s) {
      const auto sequence = in.sequence(s);
      queries = (std::max)(queries, sequence.queries);
      work += std::int64_t{sequence.queries} * sequence.keys;
      if (sequence.blocks && sequence.keys > 0)
        narrow = narrow || sequence.blocks[(sequence.keys - 1) / key_block<T>].format != Format::scalar;
    }
    const Index heads = in.sequences() * in.kv_heads;
    pieces = (std::max)((queries + most_queries - 1) / most_queries,
                        (std::min)((queries + row_block - 1) / row_block, 16 / (std::max)(heads, Index{1})));
    piece = pieces > 0 ? (queries + pieces - 1) / pieces : 0;
    tasks = heads * pieces;
    work = (std::max)(work * in.query.extent(2) * in.width(), std::int64_t{1});
    grain = static_cast<Index>((std::min)(least_work * tasks / work, std::int64_t{tasks}));
    key_size = in.cached && !(narrow && piece > Tile<T>::rows) ? 0 : Operand<T>::size(in.width(), key_block<T>);
    value_size = Operand<T>::size(key_block<T>, in.width());
  }
};

template <class T>
class AttentionForward {
 public:
  AttentionForward(const Threads& threads, Arena& arena, const ForwardInputs<T>& in, View<T, 4> output,
                   View<AttentionRow<T>, 3> rows, const ForwardScore<T>& score)
      : threads_(threads), in_(in), output_(output), kept_(rows), score_(score), plan_(in), memory_(arena.scratch()),
        matrices_(arena.allocate<T>(threads.count() * matrices_size())),
        ranges_(arena.allocate<Mask::Range>(threads.count() * plan_.piece)),
        softmax_(arena.allocate<OnlineSoftmax<T>>(threads.count() * in.group() * plan_.piece)) {}

  void run() const {
    threads_.parallel_for(plan_.tasks, plan_.grain, [&](Index begin, Index end, int slot) {
      for (Index number = begin; number < end; ++number) run(number, slot);
    });
  }

 private:
  static constexpr Index lanes = Vec<T>::lanes, tile_rows = Tile<T>::rows, keys_at_once = key_block<T>;
  static constexpr T infinity = std::numeric_limits<T>::infinity();

  /// Some queries of a sequence and all heads that share head kv of its keys and values.
  struct Task {
    typename ForwardInputs<T>::Sequence sequence;
    Index kv, first, count;       // its first query, and how many
    T *keys, *values, *scores;    // scratch
    Mask::Range* ranges;          // by query: the keys that it sees,
    Mask::Range all{}, common{};  // those that any sees, and those whose values all take
    OnlineSoftmax<T>* softmax;    // by row
  };

  /// The rows of tiles: the queries of one head; or, of a single query, the heads that share its keys.
  struct Rows {
    Index count, query, query_step, head, head_step;
    const Mask::Range* ranges;
    OnlineSoftmax<T>* softmax;

    Index query_of(Index row) const { return query + row * query_step; }
    Index head_of(Index row) const { return head + row * head_step; }
    const Mask::Range& range(Index row) const { return ranges[row * query_step]; }
    Mask::Range seen(Index row, Index rows, Index begin, Index end) const {
      return seen_by(&range(row), (rows - 1) * query_step + 1, begin, end);
    }
    Index stride(ConstView<T, 4> x) const { return query_step * x.stride(1) + head_step * x.stride(2); }
  };

  struct Block {
    Index first, size;       // of its keys
    ConstView<T, 2> values;  // (size, E) as they lie
    Operand<T> key, value;
    bool replaced;                         // whether there is 0 for values that are not finite and not taken by all
    const KvBlock<T>* narrow = nullptr;    // keys and values in a cache's format,
    Panels<T> wide_keys{}, wide_values{};  // and widened ahead, or null
  };

  /// Scores of rows [begin, begin + count) against keys [from, from + padded), whole vectors from the begin of a panel
  /// on; the first and last that are seen are seen_from and to − 1.
  struct ScoreTile {
    Index begin, count, seen_from, from, to, padded;
    T* scores;

    T* row(Index i) const { return scores + i * keys_at_once; }
  };

  Index matrices_size() const { return plan_.key_size + plan_.value_size + tile_rows * keys_at_once; }

  void run(Index number, int slot) const {
    const Index s = number / (in_.kv_heads * plan_.pieces), group = in_.group(),
                offset = (plan_.pieces - 1 - number % plan_.pieces) * plan_.piece;
    T* const matrices = matrices_ + slot * matrices_size();
    Task task{.sequence = in_.sequence(s),
              .kv = number / plan_.pieces % in_.kv_heads,
              .first = offset,
              .count = 0,
              .keys = matrices,
              .values = matrices + plan_.key_size,
              .scores = matrices + plan_.key_size + plan_.value_size,
              .ranges = ranges_ + slot * plan_.piece,
              .softmax = softmax_ + slot * group * plan_.piece};
    task.count = (std::min)(plan_.piece, task.sequence.queries - offset);
    if (task.count <= 0) return;
    find_ranges(task);
    const Index sets = task.count == 1 ? 1 : group;
    for (Index set = 0; set < sets; ++set) begin_rows(rows_of(task, set), task);
    for (Index first = task.all.begin / keys_at_once * keys_at_once; first < task.all.end; first += keys_at_once) {
      const Block block = block_of(task, first);
      for (Index set = 0; set < sets; ++set) attend(task, rows_of(task, set), block);
    }
    for (Index set = 0; set < sets; ++set) end_rows(rows_of(task, set), task);
  }

  void find_ranges(Task& task) const {
    const auto& [b, first, queries, keys, blocks] = task.sequence;
    for (Index i = 0; i < task.count; ++i) task.ranges[i] = in_.mask.range(b, task.first + i, queries, keys);
    task.all = task.common = seen_by(task.ranges, task.count, 0, keys);
    for (Index i = 0; i < task.count; ++i)
      task.common = {(std::max)(task.common.begin, task.ranges[i].begin),
                     (std::min)(task.common.end, task.ranges[i].end)};
    if (in_.mask.allowed.view || in_.dropout) task.common.end = task.common.begin;
  }

  Rows rows_of(const Task& task, Index set) const {
    const Index group = in_.group(), query = task.sequence.first + task.first, head = task.kv * group;
    if (task.count == 1) return {group, query, 0, head, 1, task.ranges, task.softmax};
    return {task.count, query, 1, head + set, 0, task.ranges, task.softmax + set * task.count};
  }

  Block block_of(const Task& task, Index first) const {
    const Index size = (std::min)(keys_at_once, task.all.end - first), b = task.sequence.b;
    const KvBlock<T>* const cached = in_.cached ? task.sequence.blocks + first / keys_at_once : nullptr;
    if (cached && cached->format != Format::scalar) return narrow_block(task, *cached, first, size);
    const ConstView<T, 2> values =
        cached ? cached->value_rows(task.kv, size) : head(in_.value, b, task.kv).slice(0, first, size);
    const auto finite_between = [&](Index begin, Index end) {
      const Index from = std::clamp(begin - first, Index{0}, size), to = std::clamp(end - first, from, size);
      return all_finite(values.slice(0, from, to - from));
    };
    const bool finite =
        finite_between(task.all.begin, task.common.begin) && finite_between(task.common.end, task.all.end);
    const auto value = [&]() -> Operand<T> {
      if (!finite) return finite_rows<T>(values, T{1}, task.values).operand;
      if (cached) return cached->value_operand(task.kv, size);
      return pack({}, Operand<T>::rows(values), task.values);
    };
    const auto key = [&]() -> Operand<T> {
      if (cached) return cached->key_operand(task.kv, size);
      return pack({}, Operand<T>::transposed(head(in_.key, b, task.kv).slice(0, first, size)), task.keys, in_.scale);
    };
    return {first, size, values, key(), value(), !finite};
  }

  Block narrow_block(const Task& task, const KvBlock<T>& cached, Index first, Index size) const {
    Block block{first, size, {}, {}, {}, false, &cached};
    if constexpr (std::is_same_v<T, float>)
      cached.with_numbers([&](auto number) {
        using R = decltype(number);
        const auto values = cached.template value_panels<R>(task.kv, size);
        if (task.count > tile_rows) {
          block.wide_keys = cached.template key_panels<R>(task.kv, size).widen(task.keys);
          block.wide_values = values.widen(task.values);
        }
        if (cached.has_scales()) block.replaced = !all_finite(cached.value_scales(task.kv), size);
        else if constexpr (std::is_same_v<R, BrainFloat>) {
          const bool all_take = task.common.begin <= task.all.begin && task.common.end >= task.all.end;
          block.replaced = !all_take && !all_finite(cached.template value_rows<R>(task.kv, size));
          if (block.replaced) block.wide_values = finite_panels(values, task.values);
        }
      });
    return block;
  }
  /// f(right operand): keys (E, size), values (size, E).
  static void with_keys(const Task& task, const Block& block, auto&& f) {
    if (!block.narrow) return f(block.key);
    if constexpr (std::is_same_v<T, float>) {
      if (block.wide_keys.data) return f(block.wide_keys);
      block.narrow->with_numbers(
          [&](auto number) { f(block.narrow->template key_panels<decltype(number)>(task.kv, block.size)); });
    }
  }
  static void with_values(const Task& task, const Block& block, auto&& f) {
    if (!block.narrow) return f(block.value);
    if constexpr (std::is_same_v<T, float>) {
      if (block.wide_values.data) return f(block.wide_values);
      block.narrow->with_numbers(
          [&](auto number) { f(block.narrow->template value_panels<decltype(number)>(task.kv, block.size)); });
    }
  }

  ScoreRow at(const Task& task, const Rows& rows, Index row) const {
    const auto& [b, first, queries, keys, blocks] = task.sequence;
    const Index query = rows.query_of(row);
    return {b, rows.head_of(row), query, in_.mask.position(b, query - first, queries, keys)};
  }
  T* output(const Task& task, const Rows& rows, Index row) const {
    return &output_(task.sequence.b, rows.query_of(row), rows.head_of(row), 0);
  }

  void begin_rows(const Rows& rows, const Task& task) const {
    for (Index row = 0; row < rows.count; ++row) {
      std::construct_at(rows.softmax + row,
                        in_.sinks ? OnlineSoftmax<T>(in_.sinks[rows.head_of(row)]) : OnlineSoftmax<T>());
      std::fill_n(output(task, rows, row), in_.width(), T{0});
      if (score_.adds_weights()) score_.begin_row(at(task, rows, row));
    }
  }

  void end_rows(const Rows& rows, const Task& task) const {
    for (Index row = 0; row < rows.count; ++row) {
      const AttentionRow<T> statistics = rows.softmax[row].row();
      if (kept_) kept_(task.sequence.b, rows.head_of(row), rows.query_of(row)) = statistics;
      rescale_row(task, rows, row, statistics.factor);
    }
  }

  /// What a row has gathered so far, times a factor.
  void rescale_row(const Task& task, const Rows& rows, Index row, T by) const {
    scale_line(output(task, rows, row), in_.width(), by);
    if (score_.adds_weights()) score_.rescale_row(at(task, rows, row), by);
  }

  void attend(const Task& task, const Rows& rows, const Block& block) const {
    const RowGroups<T> groups{rows.count};
    for (Index g = 0; g < groups.count; ++g) {
      const Index begin = groups.begin(g), count = groups.begin(g + 1) - begin;
      const Mask::Range seen = rows.seen(begin, count, block.first, block.first + block.size);
      const Index seen_from = seen.begin, to = seen.end;
      if (seen_from >= to) continue;
      const Index from = panel_begin<T>(seen_from), padded = (to - from + lanes - 1) / lanes * lanes;
      const ScoreTile tile{begin, count, seen_from, from, to, padded, task.scores};
      with_keys(task, block, [&](const auto& keys) {
        score_product(count, &in_.query(task.sequence.b, rows.query_of(begin), rows.head_of(begin), 0),
                      rows.stride(in_.query), keys, from - block.first, to - block.first, tile.scores, keys_at_once);
      });
      if (block.narrow && block.narrow->has_scales())
        multiply_rows(tile.scores, count, block.narrow->key_scales(task.kv) + from - block.first, padded);
      for (Index i = 0; i < count; ++i) mask(task, rows, tile, i);
      rescale(task, rows, tile);
      for (Index i = 0; i < count; ++i) weigh(task, rows, tile, i);
      accumulate(task, rows, block, tile);
    }
  }

  /// Rows of scores or weights times the scales of their columns; 0 where these are not finite, if so wanted.
  static void multiply_rows(T* x, Index rows, const T* scales, Index count, bool select = false) {
    for_vectors<T>(count, [&](Index j, auto n) {
      const Vec<T> scale = load(scales + j, n);
      for (Index i = 0; i < rows; ++i) {
        const Vec<T> scaled = load(x + i * keys_at_once + j, n) * scale;
        store(x + i * keys_at_once + j, select ? where_finite(scale, scaled, Vec<T>(T{0})) : scaled, n);
      }
    });
  }

  /// A row of products becomes scores, −∞ where a key is hidden.
  EIGENFORMER_INLINE void mask(const Task& task, const Rows& rows, const ScoreTile& tile, Index i) const {
    T* const scores = tile.row(i);
    const Index row = tile.begin + i;
    const Mask::Range range = rows.range(row);
    const Index begin = std::clamp(range.begin - tile.from, Index{0}, tile.padded),
                end = std::clamp((std::min)(range.end, tile.to) - tile.from, begin, tile.padded);
    const ScoreRow at = this->at(task, rows, row);
    score_.apply(at, tile.from + begin, end - begin, scores + begin);
    in_.mask.hide(at.b, at.h, at.i, tile.from + begin, end - begin, scores + begin, -infinity);
    std::fill(scores, scores + begin, -infinity);
    std::fill(scores + end, scores + tile.padded, -infinity);
  }

  /// Raises the running maxima, and corrects by that what the rows have gathered.
  EIGENFORMER_INLINE void rescale(const Task& task, const Rows& rows, const ScoreTile& tile) const {
    OnlineSoftmax<T>* const softmax = rows.softmax + tile.begin;
    T factors[static_cast<std::size_t>(tile_rows)], after[static_cast<std::size_t>(tile_rows)];
    for (Index i = 0; i < tile.count; ++i) {
      factors[i] = softmax[i].raise(tile.row(i), tile.padded);
      after[i] = softmax[i].base();
    }
    for_vectors<T>(tile.count, [&](Index i, auto n) {
      store(factors + i, exp_of_negative(load(factors + i, n) - load(after + i, n)), n);
    });
    for (Index i = 0; i < tile.count; ++i) {
      if (factors[i] == 1) continue;
      softmax[i].sum = softmax[i].sum * Vec<T>(factors[i]);
      rescale_row(task, rows, tile.begin + i, factors[i]);
    }
  }

  /// A row of scores becomes weights, some of them dropped.
  EIGENFORMER_INLINE void weigh(const Task& task, const Rows& rows, const ScoreTile& tile, Index i) const {
    T* const weights = tile.row(i);
    rows.softmax[tile.begin + i].weigh(weights, tile.padded);
    if (!in_.dropout && !score_.adds_weights()) return;
    const ScoreRow at = this->at(task, rows, tile.begin + i);
    if (in_.dropout) {
      T memory[static_cast<std::size_t>(keys_at_once)];
      const T* const factors =
          in_.dropout.window(dropout_row(in_.query, at), tile.from, tile.from + tile.padded, memory);
      for (Index j = 0; j < tile.padded; j += lanes)
        (Vec<T>::load(weights + j) * Vec<T>::load(factors + j)).store(weights + j);
    }
    score_.add_weights(at, tile.from, tile.to - tile.from, weights);
  }

  /// Adds the weighted values to the output.
  EIGENFORMER_INLINE void accumulate(const Task& task, const Rows& rows, const Block& block,
                                     const ScoreTile& tile) const {
    const Index count = tile.to - tile.seen_from;
    T* const weights = tile.scores + (tile.seen_from - tile.from);
    if (block.narrow && block.narrow->has_scales())
      multiply_rows(weights, tile.count, block.narrow->value_scales(task.kv) + tile.seen_from - block.first, count,
                    block.replaced);
    with_values(task, block, [&](const auto& values) {
      product(tile.count, count, weights, keys_at_once, 1, values, tile.seen_from - block.first,
              output(task, rows, tile.begin), rows.stride(output_), true);
    });
    if (!block.replaced) return;
    for (Index i = 0; i < tile.count; ++i) {
      bool taken[static_cast<std::size_t>(keys_at_once)];
      const ScoreRow at = this->at(task, rows, tile.begin + i);
      see(in_, rows.range(tile.begin + i), at, tile.seen_from, count, taken);
      take(in_, at, tile.seen_from, count, taken);
      for (Index j = 0; j < count; ++j)
        if (taken[j])
          add_value_not_finite(task, block, tile.seen_from - block.first + j, weights[i * keys_at_once + j],
                               output(task, rows, tile.begin + i));
    }
  }

  void add_value_not_finite(const Task& task, const Block& block, Index key, T weight, T* to) const {
    if (!block.narrow) return add_not_finite(block.values.row(key), T{1}, weight, to, in_.width());
    if constexpr (std::is_same_v<T, float>) {
      if (block.narrow->has_scales()) {
        const T scale = block.narrow->value_scales(task.kv)[key];
        if (!std::isfinite(scale)) std::fill_n(to, in_.width(), scale);
      } else add_not_finite(block.narrow->template value_row<BrainFloat>(task.kv, key), weight, to, in_.width());
    }
  }

  const Threads& threads_;
  const ForwardInputs<T>& in_;
  View<T, 4> output_;              // (B, N, H, E)
  View<AttentionRow<T>, 3> kept_;  // (B, H, N) or null
  const ForwardScore<T>& score_;
  ForwardPlan<T> plan_;
  Arena::Scratch memory_;
  // By thread:
  T* matrices_;
  Mask::Range* ranges_;
  OnlineSoftmax<T>* softmax_;
};

}  // namespace detail

/// output (B, N, H, E); rows (B, H, N) are kept for the backward pass.
template <class T, class Score = PlainScore>
void attention_forward(const Threads& threads, Arena& arena, const AttentionInputs<T>& in, View<T, 4> output,
                       View<AttentionRow<T>, 3> rows, const Score& score = {}) {
  detail::AttentionForward<T>(threads, arena, in, output, rows, detail::ForwardScore<T>(score)).run();
}

/// output (1, N of all, H, E): for each query the same bits as above.
template <class T, class Score = PlainScore>
void cached_attention_forward(const Threads& threads, Arena& arena, const CachedAttentionInputs<T>& in,
                              View<T, 4> output, const Score& score = {}) {
  detail::AttentionForward<T>(threads, arena, in, output, {}, detail::ForwardScore<T>(score)).run();
}

}  // namespace eigenformer::kernel
