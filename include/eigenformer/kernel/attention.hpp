// Scaled dot-product attention (Vaswani et al. 2017, equation 1): softmax(score(scale·q·kᵀ))·v for every head, with an online
// softmax over blocks of keys (Milakov and Gimelshein 2018; Dao et al. 2022): the scores of all queries against all keys
// never exist together, and blocks of keys that the mask hides are skipped.
//
// The bit guarantee: blocks of keys start at multiples of key_block, and a key that is masked contributes exactly 0 (its
// value must be finite), so the result for a query does not depend on other queries, on other sequences, or on how many
// masked keys there are.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <type_traits>
#include <utility>

#include "eigenformer/core/arena.hpp"
#include "eigenformer/core/gradient.hpp"
#include "eigenformer/core/threads.hpp"
#include "eigenformer/core/view.hpp"
#include "eigenformer/kernel/dropout.hpp"
#include "eigenformer/kernel/gemm.hpp"
#include "eigenformer/kernel/mask.hpp"
#include "eigenformer/kernel/score.hpp"
#include "eigenformer/kernel/simd.hpp"

namespace eigenformer::kernel::inline EIGENFORMER_SIMD {

/// Query head h uses key-value head h / (H/K); H is a multiple of K. Any strides, so heads may lie side by side in a row.
template <class T>
struct AttentionInputs {
  ConstView<T, 4> query;  // (B, N, H, E)
  ConstView<T, 4> key;    // (B, M, K, E)
  ConstView<T, 4> value;  // (B, M, K, E)
  T scale;
  Mask mask{};
  Dropout dropout{};  // on the weights, row (b·H + h)·N + n, column m

  Index batch() const { return query.extent(0); }
  Index queries() const { return query.extent(1); }
  Index heads() const { return query.extent(2); }
  Index width() const { return query.extent(3); }
  Index keys() const { return key.extent(1); }
  Index key_heads() const { return key.extent(2); }
  Index group() const { return heads() / key_heads(); }
  Mask::Range range(Index b, Index i) const { return mask.range(b, i, queries(), keys()); }
  ScoreRow row(Index b, Index h, Index i) const { return {b, h, i, mask.position(b, i, queries(), keys())}; }
  Index dropout_row(Index b, Index h, Index i) const { return (b * heads() + h) * queries() + i; }
};

/// What the forward pass keeps of a query: the weight of a key is 2^(score·log₂e − shift)·factor; the factor is 0 where
/// nothing may be attended to.
template <class T>
struct AttentionRow {
  T shift, factor;

  Vec<T> weight(Vec<T> score) const {
    return exp2(fma(score, Vec<T>(std::numbers::log2e_v<T>), Vec<T>(-shift))) * Vec<T>(factor);
  }
};

/// Keys between two corrections of the running maximum: whole panels, and whole chunks of dropout's random bits.
template <class T>
inline constexpr Index key_block = 512 / std::lcm(Tile<T>::width, Dropout::chunk) * std::lcm(Tile<T>::width, Dropout::chunk);

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
    pack_panel(x.data() + p * Tile<T>::width, x.stride(0), (std::min)(Tile<T>::width, x.width() - p * Tile<T>::width), x.rows(), panel);
    if (scale == 1) continue;
    for (Index i = 0; i < panels.depth * Tile<T>::width; i += Vec<T>::lanes) (Vec<T>::load(panel + i) * Vec<T>(scale)).store(panel + i);
  }
  return panels;
}

/// Panels of scale·xᵀ.
template <class T>
Panels<T> packed_columns(ConstView<T, 2> x, T scale, T* to) {
  const Panels<T> panels{to, x.extent(1), x.extent(0)};
  for (Index p = 0; p < panels.count(); ++p)
    pack_panel_transposed(x.row(p * Tile<T>::width), x.stride(0), (std::min)(Tile<T>::width, x.rows() - p * Tile<T>::width), panels.depth, scale,
                          to + p * panels.depth * Tile<T>::width);
  return panels;
}

/// c (rows, width) = [c +] a·b over rows [k, k + depth) of b; a(i, k) = a[i·row_stride + k·k_stride].
template <class T>
void product(Index rows, Index depth, const T* a, Index row_stride, Index k_stride, const Panels<T>& b, Index k, T* c, Index c_stride, bool add) {
  const RowGroups<T> groups{rows};
  for (Index p = 0; p < b.count(); ++p)
    for (Index g = 0; g < groups.count; ++g) {
      const Index row = groups.begin(g);
      any_tile<T>(groups.begin(g + 1) - row, {depth, a + row * row_stride, row_stride, k_stride, b.at(p, k), Tile<T>::width},
                  c + row * c_stride + p * Tile<T>::width, c_stride, add, (std::min)(Tile<T>::width, b.width - p * Tile<T>::width));
    }
}

/// scores (rows, b.width) over columns [from, to) of b: all of b's depth. `from` begins a panel; what is written ends with a
/// whole vector.
template <class T>
void score_product(Index rows, const T* a, Index row_stride, const Panels<T>& b, Index from, Index to, T* scores, Index stride) {
  for (Index j = from; j < to; j += Tile<T>::width)
    any_tile<T>(rows, {b.depth, a, row_stride, 1, b.at(j / Tile<T>::width, 0), Tile<T>::width}, scores + j - from, stride, false,
                (std::min)(Tile<T>::width, (to - j + Vec<T>::lanes - 1) / Vec<T>::lanes * Vec<T>::lanes));
}

/// A score's function on a row, in place.
template <class T, class Score>
void apply_score(const Score& score, const ScoreRow& at, Index first, Index count, T* scores) {
  if constexpr (!std::is_same_v<Score, PlainScore>) {
    const auto f = score.row(at, first);
    for_vectors<T>(count, [&](Index j, auto n) EIGENFORMER_INLINE_LAMBDA { store(scores + j, f(load(scores + j, n), j, n), n); });
  }
}

/// Running maximum and sum of a row of e^s, in powers of 2.
template <class T>
struct OnlineSoftmax {
  T largest = -std::numeric_limits<T>::infinity(), shift = 0, sum = 0;

  /// Turns scores [0, padded), a multiple of the lanes, into weights 2^(s·log₂e − shift) and returns what earlier weights
  /// must be multiplied by. `place` is where they lie in their block, in vectors: the order of summation depends on that alone.
  T absorb(T* scores, Index padded, Index place) {
    using V = Vec<T>;
    constexpr int chains = 4;
    V most[chains], total[chains];
    for (int c = 0; c < chains; ++c) most[c] = V(largest), total[c] = V(T{0});
    Index j = 0;
    for (; j + chains * V::lanes <= padded; j += chains * V::lanes)
      unroll<chains>([&](auto c) EIGENFORMER_INLINE_LAMBDA { most[c] = maximum(most[c], V::load(scores + j + c * V::lanes)); });
    for (; j < padded; j += V::lanes) most[0] = maximum(most[0], V::load(scores + j));
    const T before = shift;
    const bool nothing_before = largest == -std::numeric_limits<T>::infinity();
    largest = kernel::largest(maximum(maximum(most[0], most[1]), maximum(most[2], most[3])));
    if (largest != -std::numeric_limits<T>::infinity()) shift = largest * std::numbers::log2e_v<T>;
    const V offset(-shift);
    const auto weigh = [&](Index at, V& to) EIGENFORMER_INLINE_LAMBDA {
      const V weight = exp2(fma(V::load(scores + at), V(std::numbers::log2e_v<T>), offset));
      weight.store(scores + at);
      to = to + weight;
    };
    j = 0;
    for (; j < padded && place % chains != 0; j += V::lanes, ++place) weigh(j, total[place % chains]);
    for (; j + chains * V::lanes <= padded; j += chains * V::lanes)
      unroll<chains>([&](auto c) EIGENFORMER_INLINE_LAMBDA { weigh(j + c * V::lanes, total[c]); });
    for (int c = 0; j < padded; j += V::lanes, ++c) weigh(j, total[c]);
    const T correction = nothing_before || before == shift ? T{1} : std::exp2(before - shift);
    sum = sum * correction + kernel::sum((total[0] + total[1]) + (total[2] + total[3]));
    return correction;
  }

  bool seen() const { return sum > 0 || std::isnan(sum); }
  AttentionRow<T> row() const { return {shift, seen() ? 1 / sum : T{0}}; }
};

}  // namespace detail

/// output (B, N, H, E); rows (B, H, N) are kept for the backward pass.
template <class T, class Score = PlainScore>
void attention_forward(const Threads& threads, Arena& arena, const AttentionInputs<T>& in, View<T, 4> output, View<AttentionRow<T>, 3> rows,
                       const Score& score = {}) {
  constexpr Index width = Tile<T>::width, lanes = Vec<T>::lanes, tile_rows = Tile<T>::rows, query_block = row_block, keys_at_once = key_block<T>;
  const Index queries = in.queries(), heads = in.heads(), key_heads = in.key_heads(), head_width = in.width(), keys = in.keys();
  const Index key_size = Panels<T>::size(head_width, keys), value_size = Panels<T>::size(keys, head_width);

  const auto memory = arena.scratch();
  T* const packed_keys = arena.allocate<T>(in.batch() * key_heads * key_size);
  T* const packed_values = arena.allocate<T>(in.batch() * key_heads * value_size);
  threads.parallel_for(in.batch() * key_heads, 65536 / (std::max)(key_size, Index{1}), [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      detail::packed_columns<T>(detail::head(in.key, i / key_heads, i % key_heads), in.scale, packed_keys + i * key_size);
      detail::packed_rows<T>(detail::head(in.value, i / key_heads, i % key_heads), T{1}, packed_values + i * value_size);
    }
  });

  const Index blocks = (queries + query_block - 1) / query_block;
  T* const scratch = arena.allocate<T>(threads.count() * tile_rows * keys_at_once);
  threads.parallel_for(in.batch() * heads * blocks, 1, [&](Index task, Index, int slot) {
    const Index b = task / (heads * blocks), h = task / blocks % heads, first = task % blocks * query_block;
    const Index key_head = b * key_heads + h / in.group();
    const auto query = detail::head(in.query, b, h);
    const auto out = detail::head(output, b, h);
    const Panels<T> key{packed_keys + key_head * key_size, head_width, keys}, value{packed_values + key_head * value_size, keys, head_width};
    T* const scores = scratch + slot * tile_rows * keys_at_once;
    const Index count = (std::min)(query_block, queries - first);
    const detail::RowGroups<T> groups{count};
    std::array<Mask::Range, static_cast<std::size_t>(query_block)> ranges;
    std::array<detail::OnlineSoftmax<T>, static_cast<std::size_t>(query_block)> softmax;
    Index last = 0;
    for (Index i = 0; i < count; ++i) {
      const auto range = ranges[static_cast<std::size_t>(i)] = in.range(b, first + i);
      last = (std::max)(last, range.end);
      std::fill_n(out.row(first + i), head_width, T{0});
    }
    for (Index block = 0; block < last; block += keys_at_once)
      for (Index g = 0; g < groups.count; ++g) {
        const Index begin = groups.begin(g), row = first + begin, rows_here = groups.begin(g + 1) - begin;
        Mask::Range all{keys, 0};
        for (Index i = begin; i < begin + rows_here; ++i) {
          const Mask::Range range = ranges[static_cast<std::size_t>(i)];
          if (range.begin < range.end) all = {(std::min)(all.begin, range.begin), (std::max)(all.end, range.end)};
        }
        const Index from = (std::max)(all.begin, block) / width * width, to = (std::min)(all.end, block + keys_at_once);
        if (from >= to) continue;
        const Index padded = (to - from + lanes - 1) / lanes * lanes;
        detail::score_product(rows_here, query.row(row), query.stride(0), key, from, to, scores, keys_at_once);
        for (Index i = 0; i < rows_here; ++i) {
          T* const line = scores + i * keys_at_once;
          const Mask::Range range = ranges[static_cast<std::size_t>(begin + i)];
          const Index seen_from = std::clamp(range.begin - from, Index{0}, padded), seen_to = std::clamp((std::min)(range.end, to) - from, seen_from, padded);
          detail::apply_score<T>(score, in.row(b, h, row + i), from + seen_from, seen_to - seen_from, line + seen_from);
          in.mask.hide(b, h, row + i, from + seen_from, seen_to - seen_from, line + seen_from);
          std::fill(line, line + seen_from, -std::numeric_limits<T>::infinity());
          std::fill(line + seen_to, line + padded, -std::numeric_limits<T>::infinity());
          const T correction = softmax[static_cast<std::size_t>(begin + i)].absorb(line, padded, (from - block) / lanes);
          if (correction != 1)
            for_vectors<T>(head_width, [&](Index e, auto n) { store(out.row(row + i) + e, load(out.row(row + i) + e, n) * Vec<T>(correction), n); });
          if (in.dropout) {
            T factors[static_cast<std::size_t>(Dropout::chunk)];
            for (Index j = from / Dropout::chunk * Dropout::chunk; j < to; j += Dropout::chunk) {
              in.dropout.factors(in.dropout_row(b, h, row + i), j / Dropout::chunk, factors);
              for (Index at = (std::max)(j, from); at < (std::min)(j + Dropout::chunk, from + padded); at += lanes)
                (Vec<T>::load(line + at - from) * Vec<T>::load(factors + at - j)).store(line + at - from);
            }
          }
        }
        detail::product(rows_here, to - from, scores, keys_at_once, 1, value, from, out.row(row), out.stride(0), true);
      }
    for (Index i = 0; i < count; ++i) {
      const AttentionRow<T> row = rows(b, h, first + i) = softmax[static_cast<std::size_t>(i)].row();
      T* const line = out.row(first + i);
      for_vectors<T>(head_width, [&](Index e, auto n) { store(line + e, load(line + e, n) * Vec<T>(row.factor), n); });
    }
  });
}

/// The derivatives, from output, rows and doutput. The weights are computed again, for some queries and keys at a time.
template <class T, class Score = PlainScore>
void attention_backward(const Threads& threads, Arena& arena, const AttentionInputs<T>& in, ConstView<T, 4> output, ConstView<AttentionRow<T>, 3> rows,
                        ConstView<T, 4> doutput, Gradient<T, 4> dquery, Gradient<T, 4> dkey, Gradient<T, 4> dvalue, const Score& score = {}) {
  constexpr Index query_block = row_block;
  constexpr Index keys_at_once = std::lcm(Tile<T>::width, Dropout::chunk);
  constexpr bool collects = requires { score.collect(ScoreRow{}, Index{}, Index{}, static_cast<const T*>(nullptr)); };
  const Index queries = in.queries(), head_width = in.width(), keys = in.keys();
  const Index key_size = Panels<T>::size(head_width, keys), row_size = Panels<T>::size(keys, head_width), query_size = Panels<T>::size(query_block, head_width);
  const Index slot_size = 2 * key_size + row_size + 2 * query_size + 2 * query_block * keys_at_once + query_block;
  const auto memory = arena.scratch();
  T* const scratch = arena.allocate<T>(threads.count() * slot_size);

  const auto run = [&](Index b, Index kv, int slot) {
    T* free = scratch + slot * slot_size;
    const auto take = [&](Index count) { return std::exchange(free, free + count); };
    const auto key = detail::head(in.key, b, kv), value = detail::head(in.value, b, kv);
    const Panels<T> key_columns = detail::packed_columns<T>(key, in.scale, take(key_size)), value_columns = detail::packed_columns<T>(value, T{1}, take(key_size));
    const Panels<T> key_rows = detail::packed_rows<T>(key, in.scale, take(row_size));
    T *const query_memory = take(query_size), *const slope_memory = take(query_size);
    T* const weights = take(query_block * keys_at_once);  // (queries, keys), dropped
    T* const slopes = take(query_block * keys_at_once);   // of the scores, likewise
    T* const along = take(query_block);                   // by query: Σ doutput∘output
    const auto clear = [&](const Gradient<T, 4>& gradient) {
      if (!gradient || gradient.add) return;
      const auto lines = detail::head(gradient.view, b, kv);
      for (Index j = 0; j < keys; ++j) std::fill_n(lines.row(j), head_width, T{0});
    };
    clear(dkey);
    clear(dvalue);
    for (Index h = kv * in.group(); h < (kv + 1) * in.group(); ++h) {
      const auto query = detail::head(in.query, b, h), out = detail::head(output, b, h), dout = detail::head(doutput, b, h);
      for (Index first = 0; first < queries; first += query_block) {
        const Index count = (std::min)(query_block, queries - first);
        const detail::RowGroups<T> groups{count};
        const Panels<T> query_rows = detail::packed_rows<T>(query.slice(0, first, count), in.scale, query_memory);
        const Panels<T> dout_rows = detail::packed_rows<T>(dout.slice(0, first, count), T{1}, slope_memory);
        std::array<Mask::Range, static_cast<std::size_t>(query_block)> ranges;
        Mask::Range all{keys, 0};
        for (Index i = 0; i < count; ++i) {
          const auto range = ranges[static_cast<std::size_t>(i)] = in.range(b, first + i);
          if (range.begin < range.end) all = {(std::min)(all.begin, range.begin), (std::max)(all.end, range.end)};
          along[i] = sum_vectors<T>(head_width, [&](Index e, auto n) { return load(out.row(first + i) + e, n) * load(dout.row(first + i) + e, n); });
          if (dquery && !dquery.add) std::fill_n(detail::head(dquery.view, b, h).row(first + i), head_width, T{0});
        }
        for (Index block = all.begin / keys_at_once * keys_at_once; block < all.end; block += keys_at_once) {
          const Index size = (std::min)(keys_at_once, keys - block);
          std::array<Mask::Range, static_cast<std::size_t>(query_block)> seen;  // by each group of queries, of this block, in whole panels or vectors
          for (Index g = 0; g < groups.count; ++g) {
            const Index begin = groups.begin(g), here = groups.begin(g + 1) - begin;
            Mask::Range range{size, 0};
            for (Index i = begin; i < begin + here; ++i) {
              const Mask::Range of_row = ranges[static_cast<std::size_t>(i)];
              if (of_row.begin < of_row.end)
                range = {(std::min)(range.begin, of_row.begin - block), (std::max)(range.end, of_row.end - block)};
            }
            const Index from = (std::max)(range.begin, Index{0}) / Tile<T>::width * Tile<T>::width, to = (std::min)(range.end, size);
            seen[static_cast<std::size_t>(g)] = {from, (std::max)(from, to)};
            T *const weight_rows = weights + begin * keys_at_once, *const slope_rows = slopes + begin * keys_at_once;
            if (from < to) {
              detail::score_product(here, query.row(first + begin), query.stride(0), key_columns, block + from, block + to, weight_rows + from, keys_at_once);
              detail::score_product(here, dout.row(first + begin), dout.stride(0), value_columns, block + from, block + to, slope_rows + from, keys_at_once);
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
              const Vec<T> mean(along[i + begin]);
              const auto differentiate = [&](Index j, auto n, Vec<T> weight) EIGENFORMER_INLINE_LAMBDA {  // → dL/d(score)
                Vec<T> slope = load(slope_row + j, n), dropped = weight;
                if (in.dropout) {
                  const Vec<T> factor = load(factors + j, n);
                  slope = slope * factor;
                  dropped = dropped * factor;
                }
                store(weight_row + j, dropped, n);
                return weight * (slope - mean);
              };
              const Index length = end_here - begin_here;
              if constexpr (std::is_same_v<Score, PlainScore>) {
                in.mask.hide(b, h, row, block + begin_here, length, weight_row + begin_here);
                for_vectors<T>(length, [&](Index offset, auto n) EIGENFORMER_INLINE_LAMBDA {
                  const Index j = begin_here + offset;
                  store(slope_row + j, differentiate(j, n, statistics.weight(load(weight_row + j, n))), n);
                });
              } else {
                const auto f = score.row(at, block + begin_here);
                T raw[static_cast<std::size_t>(keys_at_once)];
                if constexpr (requires { f.slope(Vec<T>(), Index{}, Index{}); }) std::copy(weight_row + begin_here, weight_row + end_here, raw);
                detail::apply_score<T>(score, at, block + begin_here, length, weight_row + begin_here);
                in.mask.hide(b, h, row, block + begin_here, length, weight_row + begin_here);
                for_vectors<T>(length, [&](Index offset, auto n) EIGENFORMER_INLINE_LAMBDA {
                  const Index j = begin_here + offset;
                  store(slope_row + j, differentiate(j, n, statistics.weight(load(weight_row + j, n))), n);
                });
                if constexpr (collects) score.collect(at, block + begin_here, length, slope_row + begin_here);
                if constexpr (requires { f.slope(Vec<T>(), Index{}, Index{}); })
                  for_vectors<T>(length, [&](Index offset, auto n) EIGENFORMER_INLINE_LAMBDA {
                    T* const to_slope = slope_row + begin_here + offset;
                    store(to_slope, load(to_slope, n) * f.slope(load(raw + offset, n), offset, n), n);
                  });
              }
              zero(0, begin_here);
              zero(end_here, size);
            }
            if (dquery && from < to) {
              const auto to_rows = detail::head(dquery.view, b, h);
              detail::product(here, to - from, slope_rows + from, keys_at_once, 1, key_rows, block + from, to_rows.row(first + begin), to_rows.stride(0), true);
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
              detail::product(here, depth, left + query_begin * keys_at_once + begin, 1, keys_at_once, right, query_begin, to.row(block + begin), to.stride(0), true);
            };
            give(dvalue, weights, dout_rows);
            give(dkey, slopes, query_rows);
          }
        }
      }
    }
  };
  // Where a score's gradient is shared, those who share take turns.
  Index batches = in.batch(), heads_at_once = 1;
  if constexpr (collects) {
    if (score.shared_by_batch()) batches = 1;
    if (score.shared_by_heads()) heads_at_once = in.key_heads();
  }
  for (Index start = 0; start < in.batch(); start += batches)
    threads.parallel_for(batches * in.key_heads(), heads_at_once, [&](Index begin, Index end, int slot) {
      for (Index task = begin; task < end; ++task) run(start + task / in.key_heads(), task % in.key_heads(), slot);
    });
}

}  // namespace eigenformer::kernel::inline EIGENFORMER_SIMD
