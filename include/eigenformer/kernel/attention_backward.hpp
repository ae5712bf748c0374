// The backward pass of attention, in tiles of some queries × some keys: recompute the scores, differentiate their rows,
// accumulate the gradients.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <type_traits>
#include <utility>

#include "eigenformer/core/arena.hpp"
#include "eigenformer/core/gradient.hpp"
#include "eigenformer/core/threads.hpp"
#include "eigenformer/core/view.hpp"
#include "eigenformer/kernel/attention_inputs.hpp"
#include "eigenformer/kernel/attention_products.hpp"
#include "eigenformer/kernel/online_softmax.hpp"
#include "eigenformer/kernel/score.hpp"

namespace eigenformer::inline EIGENFORMER_ABI::kernel {
namespace detail {

/// What the forward pass gave, the gradient of its output, and where the others go: (B, N, H, E), rows (B, H, N); keys
/// and values (B, M, K, E).
template <class T>
struct AttentionGradients {
  ConstView<T, 4> output;
  ConstView<AttentionRow<T>, 3> rows;
  ConstView<T, 4> doutput;
  Gradient<T, 4> dquery, dkey, dvalue;
  Gradient<T, 1> dsinks{};  // (H)
};

template <class T>
class AttentionBackward {
 public:
  AttentionBackward(const Threads& threads, Arena& arena, const AttentionInputs<T>& in,
                    const AttentionGradients<T>& gradients, const BackwardScore<T>& score)
      : threads_(threads), in_(in), to_(gradients), score_(score), memory_(arena.scratch()),
        key_size_(Operand<T>::size(in.width(), in.keys())), row_size_(Operand<T>::size(in.keys(), in.width())),
        query_size_(Operand<T>::size(query_block, in.width())),
        matrices_(arena.allocate<T>(threads.count() * matrices_size())),
        dsinks_(arena.allocate<T>(Shape{in.batch(), in.heads()})) {}

  void run() const {
    std::fill_n(dsinks_.data(), dsinks_.size(), T{0});
    // Where a score's gradient is shared, those who share it run one after the other.
    const Index batches = score_.shared_by_batch() ? 1 : in_.batch(),
                heads_at_once = score_.shared_by_heads() ? in_.kv_heads() : 1;
    for (Index start = 0; start < in_.batch(); start += batches)
      threads_.parallel_for(batches * in_.kv_heads(), heads_at_once, [&](Index begin, Index end, int slot) {
        for (Index task = begin; task < end; ++task)
          run_head(start + task / in_.kv_heads(), task % in_.kv_heads(), slot);
      });
    for (Index h = 0; in_.sinks && to_.dsinks && h < in_.heads(); ++h) {
      T total = to_.dsinks.add ? to_.dsinks.view[h] : T{0};
      for (Index b = 0; b < in_.batch(); ++b) total += dsinks_(b, h);
      to_.dsinks.view[h] = total;
    }
  }

 private:
  static constexpr Index query_block = row_block, keys_at_once = std::lcm(Tile<T>::width, Dropout::chunk);
  using Ranges = std::array<Mask::Range, static_cast<std::size_t>(query_block)>;

  /// A head of keys and values.
  struct Head {
    Index b, kv;
    ConstView<T, 2> key, value;             // (M, E)
    Operand<T> key_columns, value_columns;  // (E, M), the former scaled
    FiniteRows<T> key_rows;                 // (M, E), scaled
    T *query_memory, *dout_memory;          // scratch for a block of queries
    T *weights, *gradients;                 // (query_block, keys_at_once): see differentiate()
  };

  /// Some queries of a head.
  struct Queries {
    Index h, first, count;
    ConstView<T, 2> query, dout;                                   // (N, E)
    FiniteRows<T> query_rows, dout_rows;                           // (count, E), the former scaled
    Ranges ranges;                                                 // by query: the keys that it sees
    std::array<T, static_cast<std::size_t>(query_block)> row_dot;  // by query: Σ doutput∘output

    RowGroups<T> groups() const { return {count}; }
    const Mask::Range& range(Index i) const { return ranges[static_cast<std::size_t>(i)]; }
  };

  /// Some keys, and which of them each group of queries sees, from the first on, in whole panels or vectors.
  struct Keys {
    Index first, size;
    Ranges seen_by_group;

    Mask::Range& seen(Index group) { return seen_by_group[static_cast<std::size_t>(group)]; }
    const Mask::Range& seen(Index group) const { return seen_by_group[static_cast<std::size_t>(group)]; }
  };

  Index matrices_size() const { return 2 * key_size_ + row_size_ + 2 * query_size_ + 2 * query_block * keys_at_once; }

  void run_head(Index b, Index kv, int slot) const {
    T* free = matrices_ + slot * matrices_size();
    const auto take = [&](Index count) { return std::exchange(free, free + count); };
    const ConstView<T, 2> key = head(in_.key, b, kv), value = head(in_.value, b, kv);
    const Head task{.b = b,
                    .kv = kv,
                    .key = key,
                    .value = value,
                    .key_columns = pack({}, Operand<T>::transposed(key), take(key_size_), in_.scale),
                    .value_columns = pack({}, Operand<T>::transposed(value), take(key_size_)),
                    .key_rows = finite_rows<T>(key, in_.scale, take(row_size_)),
                    .query_memory = take(query_size_),
                    .dout_memory = take(query_size_),
                    .weights = take(query_block * keys_at_once),
                    .gradients = take(query_block * keys_at_once)};
    clear(to_.dkey, b, kv, 0, in_.keys());
    clear(to_.dvalue, b, kv, 0, in_.keys());
    for (Index h = kv * in_.group(); h < (kv + 1) * in_.group(); ++h)
      for (Index first = 0; first < in_.queries(); first += query_block)
        run_queries(task, h, first, (std::min)(query_block, in_.queries() - first));
  }

  void clear(const Gradient<T, 4>& gradient, Index b, Index h, Index first, Index count) const {
    if (!gradient || gradient.add) return;
    const auto to = head(gradient.view, b, h);
    for (Index i = first; i < first + count; ++i) std::fill_n(to.row(i), in_.width(), T{0});
  }

  void run_queries(const Head& task, Index h, Index first, Index count) const {
    const ConstView<T, 2> query = head(in_.query, task.b, h), dout = head(to_.doutput, task.b, h);
    Queries queries{.h = h,
                    .first = first,
                    .count = count,
                    .query = query,
                    .dout = dout,
                    .query_rows = finite_rows<T>(query.slice(0, first, count), in_.scale, task.query_memory),
                    .dout_rows = finite_rows<T>(dout.slice(0, first, count), T{1}, task.dout_memory),
                    .ranges = {},
                    .row_dot = {}};
    for (Index i = 0; i < count; ++i) {
      queries.ranges[static_cast<std::size_t>(i)] = in_.range(task.b, first + i);
      queries.row_dot[static_cast<std::size_t>(i)] = row_dot(task, h, first + i);
      clear(to_.dquery, task.b, h, first + i, 1);
    }
    const RowGroups<T> groups = queries.groups();
    const Mask::Range all = seen_by(queries.ranges.data(), count, 0, in_.keys());
    for (Index block = all.begin / keys_at_once * keys_at_once; block < all.end; block += keys_at_once) {
      Keys keys{.first = block, .size = (std::min)(keys_at_once, in_.keys() - block), .seen_by_group = {}};
      for (Index g = 0; g < groups.count; ++g) {
        recompute_scores(task, queries, keys, g);
        for (Index i = groups.begin(g); i < groups.begin(g + 1); ++i) differentiate(task, queries, keys, i);
        if (to_.dquery) accumulate_query_gradient(task, queries, keys, g);
      }
      accumulate_key_gradients(task, queries, keys);
      if (to_.dvalue && queries.dout_rows.replaced) add_not_finite_values(task, queries, keys);
      if (to_.dkey && queries.query_rows.replaced) add_not_finite_keys(task, queries, keys);
    }
  }

  /// Σ doutput∘output of a query, and what its sink gets of it.
  EIGENFORMER_INLINE T row_dot(const Head& task, Index h, Index i) const {
    const T *const out = &to_.output(task.b, i, h, 0), *const dout = &to_.doutput(task.b, i, h, 0);
    T dot = sum_vectors<T>(in_.width(), [&](Index e, auto n) { return load(out + e, n) * load(dout + e, n); });
    dot = score_.add_dot(in_.row(task.b, h, i), dot);
    if (!std::isfinite(dot) && !in_.takes_some(task.b, h, i)) dot = 0;
    if (in_.sinks && to_.dsinks) {
      const AttentionRow<T> row = to_.rows(task.b, h, i);
      dsinks_(task.b, h) -= std::exp(in_.sinks[h] - row.largest) * row.factor * dot;
    }
    return dot;
  }

  /// Products of queries with keys, and of doutput with values, of a group of queries.
  void recompute_scores(const Head& task, const Queries& queries, Keys& keys, Index g) const {
    const Index begin = queries.groups().begin(g), count = queries.groups().begin(g + 1) - begin;
    const Mask::Range seen = seen_by(&queries.range(begin), count, keys.first, keys.first + keys.size);
    const Index from = panel_begin<T>(seen.begin), to = seen.end;
    keys.seen(g) = {from - keys.first, to - keys.first};
    if (from >= to) return;
    const Index place = begin * keys_at_once + (from - keys.first);
    score_product(count, queries.query.row(queries.first + begin), queries.query.stride(0), task.key_columns, from, to,
                  task.weights + place, keys_at_once);
    score_product(count, queries.dout.row(queries.first + begin), queries.dout.stride(0), task.value_columns, from, to,
                  task.gradients + place, keys_at_once);
  }

  /// In row i, products with keys become weights, after dropout, and products with values dL/d(product with key); both
  /// 0 where a key is hidden.
  EIGENFORMER_INLINE void differentiate(const Head& task, const Queries& queries, const Keys& keys, Index i) const {
    constexpr T infinity = std::numeric_limits<T>::infinity();
    T *const weights = task.weights + i * keys_at_once, *const gradients = task.gradients + i * keys_at_once;
    const Index begin = std::clamp(queries.range(i).begin - keys.first, Index{0}, keys.size),
                end = std::clamp(queries.range(i).end - keys.first, begin, keys.size), count = end - begin,
                first = keys.first + begin;
    const ScoreRow at = in_.row(task.b, queries.h, queries.first + i);
    T raw[static_cast<std::size_t>(keys_at_once)];
    if (score_.has_derivative()) {
      std::copy_n(weights + begin, count, raw);
      in_.mask.hide(at.b, at.h, at.i, first, count, raw, T{0});
    }
    score_.apply(at, first, count, weights + begin);
    in_.mask.hide(at.b, at.h, at.i, first, count, weights + begin, -infinity);
    score_.add_weight_gradients(at, first, count, gradients + begin);
    const T dot = queries.row_dot[static_cast<std::size_t>(i)];
    T memory[static_cast<std::size_t>(keys_at_once)];
    const T* const factors =
        in_.dropout ? in_.dropout.window(dropout_row(in_.query, at), first, first + count, memory) : nullptr;
    differentiate_weights(to_.rows(at.b, at.h, at.i), dot, count, weights + begin, gradients + begin, factors);
    score_.collect(at, first, count, gradients + begin);
    score_.differentiate(at, first, count, raw, gradients + begin);
    if (count == keys.size) return;
    for (T* const line : {weights, gradients}) {
      std::fill(line, line + begin, T{0});
      std::fill(line + end, line + keys.size, T{0});
    }
  }

  /// Scores become weights, and dL/d(weight) becomes dL/d(score); both with dropout, unless there are no factors.
  EIGENFORMER_INLINE void differentiate_weights(AttentionRow<T> row, T dot, Index count, T* weights, T* gradients,
                                                const T* factors) const {
    const bool masked{in_.mask.allowed.view};
    for_vec_packs<T>(count, [&](Index j, auto n) EIGENFORMER_INLINE_LAMBDA {
      const auto score = load(weights + j, n, -std::numeric_limits<T>::infinity());
      using V = std::remove_const_t<decltype(score)>;
      const V weight = row.weight(score);
      V gradient = load(gradients + j, n), dropped = weight;
      if (factors) {
        const V factor = load(factors + j, n);
        gradient = surviving(gradient, factor);
        dropped = surviving(dropped, factor);
      }
      gradient = weight * (gradient - V(dot));
      if (masked) {
        const V lowest(std::numeric_limits<T>::lowest()), none(T{0});  // hidden is what is lower
        dropped = choose_less(score, lowest, none, dropped);
        gradient = choose_less(score, lowest, none, gradient);
      }
      store(weights + j, dropped, n);
      store(gradients + j, gradient, n);
    });
  }

  void accumulate_query_gradient(const Head& task, const Queries& queries, const Keys& keys, Index g) const {
    const auto [from, to] = keys.seen(g);
    if (from >= to) return;
    const Index begin = queries.groups().begin(g), count = queries.groups().begin(g + 1) - begin;
    const auto dquery = head(to_.dquery.view, task.b, queries.h);
    const T* const gradients = task.gradients + begin * keys_at_once;
    product(count, to - from, gradients + from, keys_at_once, 1, task.key_rows.operand, keys.first + from,
            dquery.row(queries.first + begin), dquery.stride(0), true);
    bool seen[static_cast<std::size_t>(keys_at_once)];
    for (Index i = 0; task.key_rows.replaced && i < count; ++i) {
      const Index query = queries.first + begin + i;
      in_.see(task.b, queries.h, query, keys.first, keys.size, seen);
      for (Index j = from; j < to; ++j)
        if (seen[j])
          add_not_finite(task.key.row(keys.first + j), in_.scale, gradients[i * keys_at_once + j], dquery.row(query),
                         in_.width());
    }
  }

  /// Each group of keys gets what the queries between the first and the last that see one of them have to give.
  void accumulate_key_gradients(const Head& task, const Queries& queries, const Keys& keys) const {
    const RowGroups<T> groups = queries.groups(), key_groups{keys.size};
    for (Index k = 0; k < key_groups.count; ++k) {
      const Index begin = key_groups.begin(k), count = key_groups.begin(k + 1) - begin;
      const auto sees = [&](Index g) { return keys.seen(g).begin < begin + count && keys.seen(g).end > begin; };
      Index first = 0, last = groups.count;
      while (first < last && !sees(first)) ++first;
      while (first < last && !sees(last - 1)) --last;
      if (first >= last) continue;
      const Index query = groups.begin(first), depth = groups.begin(last) - query;
      const auto accumulate = [&](const Gradient<T, 4>& gradient, const T* left, const Operand<T>& right) {
        if (!gradient) return;
        const auto to = head(gradient.view, task.b, task.kv);
        product(count, depth, left + query * keys_at_once + begin, 1, keys_at_once, right, query,
                to.row(keys.first + begin), to.stride(0), true);
      };
      accumulate(to_.dvalue, task.weights, queries.dout_rows.operand);
      accumulate(to_.dkey, task.gradients, queries.query_rows.operand);
    }
  }

  // What the products above left out.

  void add_not_finite_values(const Head& task, const Queries& queries, const Keys& keys) const {
    bool taken[static_cast<std::size_t>(keys_at_once)];
    for (Index i = 0; i < queries.count; ++i) {
      in_.take(task.b, queries.h, queries.first + i, keys.first, keys.size, taken);
      add_not_finite_row(task, keys, taken, to_.dvalue, task.weights + i * keys_at_once,
                         queries.dout.slice(0, queries.first + i, 1), T{1});
    }
  }
  void add_not_finite_keys(const Head& task, const Queries& queries, const Keys& keys) const {
    bool seen[static_cast<std::size_t>(keys_at_once)];
    for (Index i = 0; i < queries.count; ++i) {
      in_.see(task.b, queries.h, queries.first + i, keys.first, keys.size, seen);
      add_not_finite_row(task, keys, seen, to_.dkey, task.gradients + i * keys_at_once,
                         queries.query.slice(0, queries.first + i, 1), in_.scale);
    }
  }
  void add_not_finite_row(const Head& task, const Keys& keys, const bool* chosen, const Gradient<T, 4>& gradient,
                          const T* factors, ConstView<T, 2> row, T scale) const {
    if (all_finite(row)) return;
    const auto to = head(gradient.view, task.b, task.kv);
    for (Index j = 0; j < keys.size; ++j)
      if (chosen[j]) add_not_finite(row.row(0), scale, factors[j], to.row(keys.first + j), in_.width());
  }

  const Threads& threads_;
  const AttentionInputs<T>& in_;
  const AttentionGradients<T>& to_;
  const BackwardScore<T>& score_;
  Arena::Scratch memory_;
  Index key_size_, row_size_, query_size_;
  T* matrices_;        // by thread
  View<T, 2> dsinks_;  // (B, H)
};

}  // namespace detail

/// The gradients, from output, rows and doutput. The weights are computed again, for some queries and keys at a time.
template <class T, class Score = PlainScore>
void attention_backward(const Threads& threads, Arena& arena, const AttentionInputs<T>& in, ConstView<T, 4> output,
                        ConstView<AttentionRow<T>, 3> rows, ConstView<T, 4> doutput, Gradient<T, 4> dquery,
                        Gradient<T, 4> dkey, Gradient<T, 4> dvalue, const Score& score = {},
                        Gradient<T, 1> dsinks = {}) {
  const detail::AttentionGradients<T> gradients{output, rows, doutput, dquery, dkey, dvalue, dsinks};
  detail::AttentionBackward<T>(threads, arena, in, gradients, detail::BackwardScore<T>(score)).run();
}

}  // namespace eigenformer::kernel
