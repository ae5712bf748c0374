// Scaled dot-product attention (Vaswani et al. 2017, equation 1): softmax(scale·q·kᵀ)·v for every head, with an online softmax
// over blocks of keys (Milakov and Gimelshein 2018; Dao et al. 2022): the scores of all queries against all keys never
// exist together. Scores are kept in units of log 2: the scale times log₂e is folded into one packed factor.
//
// The bit guarantee: blocks of keys start at multiples of key_block, and a key that is masked contributes exactly 0 (its value must be finite), so the
// result for a query does not depend on other queries, on other sequences, or on how many masked keys follow.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#include "eigenformer/core/arena.hpp"
#include "eigenformer/core/gradient.hpp"
#include "eigenformer/core/threads.hpp"
#include "eigenformer/core/view.hpp"
#include "eigenformer/kernel/dropout.hpp"
#include "eigenformer/kernel/gemm.hpp"
#include "eigenformer/kernel/mask.hpp"
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
  Index key_end(Index b, Index i) const { return mask.key_end(b, i, queries(), keys()); }
  T log2_scale() const { return scale * std::numbers::log2e_v<T>; }
};

/// Keys between two corrections of the running maximum: whole panels, and whole blocks of dropout's random bits.
template <class T>
inline constexpr Index key_block = 512 / std::lcm(Tile<T>::width, Index{8}) * std::lcm(Tile<T>::width, Index{8});

namespace detail {

/// One head of one sequence: (tokens, E), rows `stride` apart.
template <class T>
View<T, 2> head(View<T, 4> x, Index b, Index h) {
  return {x.data() + b * x.stride(0) + h * x.stride(2), Shape<2>{x.extent(1), x.extent(3)}, Shape<2>{x.stride(1), 1}};
}

/// Panels of a right factor whose rows may be read where they lie: where whole vectors fit, so that nothing is read
/// beyond a row, no copy is made.
template <class T>
struct RightFactor {
  const T* data;
  Index stride, panel_step;

  static Index scratch_size(Index depth, Index width) { return width % Vec<T>::lanes == 0 ? 0 : Panels<T>::size(depth, width); }

  RightFactor(ConstView<T, 2> b, T* scratch) : data(b.data()), stride(b.stride(0)), panel_step(Tile<T>::width) {
    if (b.width() % Vec<T>::lanes == 0) return;
    for (Index p = 0; p * Tile<T>::width < b.width(); ++p)
      pack_panel(b.data() + p * Tile<T>::width, b.stride(0), (std::min)(Tile<T>::width, b.width() - p * Tile<T>::width), b.rows(),
                 scratch + p * Tile<T>::width * b.rows());
    data = scratch;
    stride = Tile<T>::width;
    panel_step = Tile<T>::width * b.rows();
  }
};

/// c (rows, width) = [c +] a·b over rows [k, k + depth) of b; a(i, k) = a[i·row_stride + k·k_stride].
template <class T>
void product(Index rows, Index depth, const T* a, Index row_stride, Index k_stride, const RightFactor<T>& b, Index k, T* c,
             Index c_stride, Index width, bool add) {
  const RowGroups<T> groups{rows};
  for (Index column = 0, panel = 0; column < width; column += Tile<T>::width, ++panel)
    for (Index g = 0; g < groups.count; ++g) {
      const Index row = groups.begin(g);
      any_tile<T>(groups.begin(g + 1) - row, {depth, a + row * row_stride, row_stride, k_stride, b.data + panel * b.panel_step + k * b.stride, b.stride},
                  c + row * c_stride + column, c_stride, add, (std::min)(Tile<T>::width, width - column));
    }
}

/// Running maximum and sum of a row of 2ˢ.
template <class T>
struct OnlineSoftmax {
  T largest = -std::numeric_limits<T>::infinity(), sum = 0;

  /// Turns a block of scores into weights 2^(s − largest), zero from `end` to `padded` (a multiple of the lanes), and
  /// returns what earlier weights must be multiplied by.
  T absorb(T* scores, Index end, Index padded) {
    using V = Vec<T>;
    constexpr T infinity = std::numeric_limits<T>::infinity();
    std::fill(scores + end, scores + padded, -infinity);
    V block_largest(-infinity);
    for (Index j = 0; j < padded; j += V::lanes) block_largest = maximum(block_largest, V::load(scores + j));
    const T before = largest;
    largest = (std::max)(largest, kernel::largest(block_largest));
    const V shift(largest == -infinity ? T{0} : largest);
    V block_sum(T{0});
    for (Index j = 0; j < padded; j += V::lanes) {
      const V weight = exp2(V::load(scores + j) - shift);
      weight.store(scores + j);
      block_sum = block_sum + weight;
    }
    const T correction = before == largest ? T{1} : std::exp2(before - largest);
    sum = sum * correction + kernel::sum(block_sum);
    return correction;
  }

  T log_sum_exp() const { return (largest + std::log2(sum)) * std::numbers::ln2_v<T>; }
};

}  // namespace detail

/// output (B, N, H, E); log_sum_exp (B, H, N) is kept for the backward pass, −inf where nothing may be attended to.
template <class T>
void attention_forward(const Threads& threads, Arena& arena, const AttentionInputs<T>& in, View<T, 4> output, View<T, 3> log_sum_exp) {
  constexpr Index width = Tile<T>::width, lanes = Vec<T>::lanes, tile_rows = Tile<T>::rows, query_block = 8 * tile_rows, keys_at_once = key_block<T>;
  const Index queries = in.queries(), heads = in.heads(), key_heads = in.key_heads(), head_width = in.width();
  const Index panels = (in.keys() + width - 1) / width, head_size = panels * width * head_width;
  const Index value_size = detail::RightFactor<T>::scratch_size(in.keys(), head_width);

  T* const packed = arena.allocate<T>(in.batch() * key_heads * head_size);  // scale·log₂e·kᵀ for every key-value head
  T* const values = arena.allocate<T>(in.batch() * key_heads * value_size);
  threads.parallel_for(in.batch() * key_heads, 65536 / (std::max)(head_size, Index{1}), [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      const auto key = detail::head(in.key, i / key_heads, i % key_heads);
      for (Index p = 0; p < panels; ++p)
        detail::pack_panel_transposed(key.row(p * width), key.stride(0), (std::min)(width, in.keys() - p * width), head_width, in.log2_scale(),
                                      packed + i * head_size + p * width * head_width);
    }
  });

  const Index blocks = (queries + query_block - 1) / query_block;
  T* const scratch = arena.allocate<T>(threads.count() * tile_rows * keys_at_once);
  threads.parallel_for(in.batch() * heads * blocks, 1, [&](Index task, Index, int slot) {
    const Index b = task / (heads * blocks), h = task / blocks % heads, first = task % blocks * query_block;
    const Index key_head = b * key_heads + h / in.group();
    const auto query = detail::head(in.query, b, h);
    const auto out = detail::head(output, b, h);
    const detail::RightFactor<T> value(detail::head(in.value, b, h / in.group()), values + key_head * value_size);
    T* const scores = scratch + slot * tile_rows * keys_at_once;
    const detail::RowGroups<T> groups{(std::min)(query_block, queries - first)};
    for (Index g = 0; g < groups.count; ++g) {
      const Index row = first + groups.begin(g), rows = groups.begin(g + 1) - groups.begin(g);
      Index ends[static_cast<std::size_t>(tile_rows)], last = 0;
      detail::OnlineSoftmax<T> softmax[static_cast<std::size_t>(tile_rows)];
      for (Index i = 0; i < rows; ++i) last = (std::max)(last, ends[i] = in.key_end(b, row + i));
      for (Index k = 0; k < last; k += keys_at_once) {
        const Index count = (std::min)(keys_at_once, last - k), padded = (count + lanes - 1) / lanes * lanes;
        for (Index j = 0; j < count; j += width)
          detail::any_tile<T>(rows, {head_width, query.row(row), query.stride(0), 1, packed + key_head * head_size + (k + j) * head_width, width},
                              scores + j, keys_at_once, false, (std::min)(width, padded - j));
        for (Index i = 0; i < rows; ++i) {
          T* const line = scores + i * keys_at_once;
          const Index end = std::clamp(ends[i] - k, Index{0}, count);
          in.mask.hide(b, h, row + i, k, end, line);
          const T correction = softmax[i].absorb(line, end, padded);
          if (correction != 1 && k > 0)
            for_vectors<T>(head_width, [&](Index e, auto n) { store(out.row(row + i) + e, load(out.row(row + i) + e, n) * Vec<T>(correction), n); });
          if (in.dropout)
            in.dropout.template for_row<T>((b * heads + h) * queries + row + i, k, count, [&](Index j, T factor) { line[j] *= factor; });
        }
        detail::product(rows, count, scores, keys_at_once, 1, value, k, out.row(row), out.stride(0), head_width, k > 0);
      }
      for (Index i = 0; i < rows; ++i) {
        T* const line = out.row(row + i);
        const bool seen = softmax[i].sum > 0 || std::isnan(softmax[i].sum);
        const Vec<T> factor(seen ? 1 / softmax[i].sum : T{0});
        if (seen) for_vectors<T>(head_width, [&](Index e, auto n) { store(line + e, load(line + e, n) * factor, n); });
        else std::fill_n(line, head_width, T{0});
        log_sum_exp(b, h, row + i) = seen ? softmax[i].log_sum_exp() : -std::numeric_limits<T>::infinity();
      }
    }
  });
}

/// The derivatives, from output, log_sum_exp and doutput. The weights are computed again, transposed: for 64 or so queries
/// side by side in vectors, key after key.
template <class T>
void attention_backward(const Threads& threads, Arena& arena, const AttentionInputs<T>& in, ConstView<T, 4> output,
                        ConstView<T, 3> log_sum_exp, ConstView<T, 4> doutput, Gradient<T, 4> dquery, Gradient<T, 4> dkey, Gradient<T, 4> dvalue) {
  using V = Vec<T>;
  constexpr Index width = Tile<T>::width, keys_at_once = 128;
  constexpr T infinity = std::numeric_limits<T>::infinity();
  const Index queries = in.queries(), head_width = in.width(), keys = in.keys();
  const Index key_size = detail::RightFactor<T>::scratch_size(keys, head_width), query_size = detail::RightFactor<T>::scratch_size(width, head_width);
  const Index slot_size = 2 * width * head_width + 3 * width * keys_at_once + 3 * width + key_size + 2 * query_size;
  T* const scratch = arena.allocate<T>(threads.count() * slot_size);
  threads.parallel_for(in.batch() * in.key_heads(), 1, [&](Index task, Index, int slot) {
    T* free = scratch + slot * slot_size;
    const auto take = [&](Index count) { return std::exchange(free, free + count); };
    T* const query_panel = take(width * head_width);     // scale·log₂e·qᵀ
    T* const slope_panel = take(width * head_width);     // doutputᵀ
    T* const weights = take(width * keys_at_once);       // (keys, queries), dropped
    T* const slopes = take(width * keys_at_once);        // of the scores, likewise
    T* const factors = take(width * keys_at_once);       // of dropout
    T *const totals = take(width), *const along = take(width), *const ends = take(width);  // by query: log₂Σ, Σ dout∘out, key_end
    T *const key_scratch = take(key_size), *const query_scratch = take(query_size), *const slope_scratch = take(query_size);

    const Index b = task / in.key_heads(), g = task % in.key_heads();
    const auto key = detail::head(in.key, b, g), value = detail::head(in.value, b, g);
    const detail::RightFactor<T> key_right(key, key_scratch);
    const auto clear = [&](const Gradient<T, 4>& gradient) {
      const auto rows = detail::head(gradient.view, b, g);
      for (Index j = 0; j < keys; ++j) std::fill_n(rows.row(j), head_width, T{0});
    };
    if (dkey && !dkey.add) clear(dkey);
    if (dvalue && !dvalue.add) clear(dvalue);
    for (Index h = g * in.group(); h < (g + 1) * in.group(); ++h) {
      const auto query = detail::head(in.query, b, h), out = detail::head(output, b, h), dout = detail::head(doutput, b, h);
      for (Index first = 0; first < queries; first += width) {
        const Index count = (std::min)(width, queries - first);
        Index last = 0, least = keys;  // key_end of the longest- and the shortest-sighted query
        for (Index i = 0; i < width; ++i) {
          const bool real = i < count;
          const Index end = real ? in.key_end(b, first + i) : 0;
          const T total = real ? log_sum_exp(b, h, first + i) : -infinity;
          ends[i] = static_cast<T>(end);
          totals[i] = total == -infinity ? infinity : total * std::numbers::log2e_v<T>;  // 2^(s − ∞) = 0
          along[i] = real ? row_map(out.row(first + i), head_width).matrix().dot(row_map(dout.row(first + i), head_width).matrix()) : T{0};
          if (real) last = (std::max)(last, end), least = (std::min)(least, end);
        }
        if (dquery && !dquery.add && last == 0)
          for (Index i = 0; i < count; ++i) std::fill_n(detail::head(dquery.view, b, h).row(first + i), head_width, T{0});
        detail::pack_panel_transposed(query.row(first), query.stride(0), count, head_width, in.log2_scale(), query_panel);
        detail::pack_panel_transposed(dout.row(first), dout.stride(0), count, head_width, T{1}, slope_panel);
        const detail::RightFactor<T> query_right(query.slice(0, first, count), query_scratch), dout_right(dout.slice(0, first, count), slope_scratch);
        const detail::RightFactor<T> query_columns(ConstView<T, 2>(query_panel, Shape{head_width, width}), nullptr);
        const detail::RightFactor<T> slope_columns(ConstView<T, 2>(slope_panel, Shape{head_width, width}), nullptr);
        for (Index k = 0; k < last; k += keys_at_once) {
          const Index rows = (std::min)(keys_at_once, last - k);
          detail::product(rows, head_width, key.row(k), key.stride(0), 1, query_columns, 0, weights, width, width, false);
          detail::product(rows, head_width, value.row(k), value.stride(0), 1, slope_columns, 0, slopes, width, width, false);
          if (in.dropout)
            for (Index i = 0; i < count; ++i)
              in.dropout.template for_row<T>((b * in.heads() + h) * queries + first + i, k, rows, [&](Index j, T factor) { factors[j * width + i] = factor; });
          for (Index j = 0; j < rows; ++j) {
            T *const weight_row = weights + j * width, *const slope_row = slopes + j * width;
            in.mask.hide_column(b, h, first, count, k + j, weight_row);
            const V position(static_cast<T>(k + j));
            for (Index i = 0; i < width; i += V::lanes) {
              V weight = exp2(V::load(weight_row + i) - V::load(totals + i));
              if (k + j >= least) weight = where_less(position, V::load(ends + i), weight);
              V slope = V::load(slope_row + i), dropped = weight;
              if (in.dropout) {
                const V factor = V::load(factors + j * width + i);
                slope = slope * factor;
                dropped = dropped * factor;
              }
              dropped.store(weight_row + i);
              (weight * (slope - V::load(along + i)) * V(in.scale)).store(slope_row + i);
            }
          }
          if (dvalue) {
            const auto to = detail::head(dvalue.view, b, g);
            detail::product(rows, count, weights, width, 1, dout_right, 0, to.row(k), to.stride(0), head_width, true);
          }
          if (dkey) {
            const auto to = detail::head(dkey.view, b, g);
            detail::product(rows, count, slopes, width, 1, query_right, 0, to.row(k), to.stride(0), head_width, true);
          }
          if (dquery) {
            const auto to = detail::head(dquery.view, b, h);
            detail::product(count, rows, slopes, 1, width, key_right, k, to.row(first), to.stride(0), head_width, dquery.add || k > 0);
          }
        }
      }
    }
  });
}

}  // namespace eigenformer::kernel::inline EIGENFORMER_SIMD
