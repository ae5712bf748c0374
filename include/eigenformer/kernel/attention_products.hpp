// The products of attention: of some rows with panels of keys or values, in register tiles.
//
// A product over what some of its rows must not see has weights of 0 there, and 0·∞ is NaN. So its right operand is
// made finite if it is not, and what was not finite is added afterwards, only where it is seen.
#pragma once

#include <algorithm>
#include <limits>
#include <type_traits>

#include "eigenformer/core/view.hpp"
#include "eigenformer/kernel/gemm.hpp"
#include "eigenformer/kernel/kv_block.hpp"
#include "eigenformer/kernel/mask.hpp"
#include "eigenformer/kernel/simd.hpp"

namespace eigenformer::inline EIGENFORMER_ABI::kernel::detail {

/// One head of one sequence: (tokens, E), rows `stride` apart.
template <class T>
View<T, 2> head(View<T, 4> x, Index b, Index h) {
  return {x.data() + b * x.stride(0) + h * x.stride(2), Shape<2>{x.extent(1), x.extent(3)}, Shape<2>{x.stride(1), 1}};
}

/// c (rows, width) = [c +] a·b over rows [k, k + depth) of packed b; a(i, k) = a[i·row_stride + k·k_stride].
template <class T>
void product(Index rows, Index depth, const T* a, Index row_stride, Index k_stride, const Operand<T>& b, Index k, T* c,
             Index c_stride, bool add) {
  const RowGroups<T> groups{rows};
  for (Index p = 0; p < b.panels(); ++p) {
    const auto block = b.block(p, k, depth, nullptr);
    for (Index g = 0; g < groups.count; ++g) {
      const Index row = groups.begin(g);
      any_tile<T>(groups.begin(g + 1) - row,
                  {depth, a + row * row_stride, row_stride, k_stride, block.data, block.stride},
                  c + row * c_stride + p * Tile<T>::width, c_stride, add, b.column_count(p));
    }
  }
}

/// scores (rows, b.width) over columns [from, to) of packed b: all of b's depth. `from` begins a panel; what is written
/// ends with a whole vector.
template <class T>
void score_product(Index rows, const T* a, Index row_stride, const Operand<T>& b, Index from, Index to, T* scores,
                   Index stride) {
  for (Index j = from; j < to; j += Tile<T>::width) {
    const auto block = b.block(j / Tile<T>::width, 0, b.depth, nullptr);
    any_tile<T>(rows, {b.depth, a, row_stride, 1, block.data, block.stride}, scores + j - from, stride, false,
                (std::min)(Tile<T>::width, (to - j + Vec<T>::lanes - 1) / Vec<T>::lanes * Vec<T>::lanes));
  }
}

/// f(first, count) for the pieces of rows [k, k + depth) of panels: a widened one stays in the first-level cache. They
/// begin at multiples of their size, so sums do not depend on k.
void for_widened(Index k, Index depth, auto&& f) {
  for (Index first = k, end = k + depth, next; first < end; first = next) {
    next = (std::min)(first / widened_rows * widened_rows + widened_rows, end);
    f(first, next - first);
  }
}

/// Likewise for b in narrower numbers.
template <class R>
void product(Index rows, Index depth, const float* a, Index row_stride, Index k_stride, const Panels<R>& b, Index k,
             float* c, Index c_stride, bool add) {
  float wide[static_cast<std::size_t>(widened_rows * Tile<float>::width)];
  for_widened(k, depth, [&](Index first, Index count) {
    for (Index p = 0; p < b.panels(); ++p)
      product(rows, count, a + (first - k) * k_stride, row_stride, k_stride, b.widen(p, first, count, wide), 0,
              c + p * Tile<float>::width, c_stride, add || first > k);
  });
}
template <class R>
void score_product(Index rows, const float* a, Index row_stride, const Panels<R>& b, Index from, Index to,
                   float* scores, Index stride) {
  float wide[static_cast<std::size_t>(widened_rows * Tile<float>::width)];
  constexpr Index lanes = Vec<float>::lanes;
  for (Index p = from / Tile<float>::width; p * Tile<float>::width < to; ++p)
    for_widened(0, b.depth, [&](Index first, Index count) {
      const Index column = p * Tile<float>::width, column_count = (std::min)(to - column, Tile<float>::width);
      const auto keys = b.widen(p, first, count, wide);
      any_tile<float>(rows, {count, a + first, row_stride, 1, keys.data, keys.row_stride}, scores + column - from,
                      stride, first > 0, (column_count + lanes - 1) / lanes * lanes);
    });
}

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
  VecPack<T> packs(T{0});
  Vec<T> rest(T{0});
  for (Index i = 0; i < x.extent(0); ++i)
    for_vec_packs<T>(x.width(), [&](Index j, auto n) EIGENFORMER_INLINE_LAMBDA {
      const auto some = load(x.row(i) + j, n);
      if constexpr (std::is_same_v<std::remove_const_t<decltype(some)>, VecPack<T>>)
        packs = fma(some, VecPack<T>(T{0}), packs);
      else rest = fma(some, Vec<T>(T{0}), rest);
    });
  unroll<VecPack<T>::count>([&](auto i) EIGENFORMER_INLINE_LAMBDA { rest = rest + packs.parts[i]; });
  return sum(rest) == 0;
}

/// y where x is finite, else z.
template <class T>
Vec<T> where_finite(Vec<T> x, Vec<T> y, Vec<T> z) {
  return choose_less(absolute(x), Vec<T>(std::numeric_limits<T>::infinity()), y, z);
}

/// scale·x (K, E), packed with 0 for what is not finite, and whether there was any.
template <class T>
struct FiniteRows {
  Operand<T> operand;
  bool replaced;
};
template <class T>
FiniteRows<T> finite_rows(ConstView<T, 2> x, T scale, T* to) {
  const Operand<T> operand = pack({}, Operand<T>::rows(x), to, scale);
  const Index size = Operand<T>::size(operand.depth, operand.width);
  if (all_finite(to, size)) return {operand, false};
  for_vectors<T>(size, [&](Index i, auto n) {
    const Vec<T> some = load(to + i, n);
    store(to + i, where_finite(some, some, Vec<T>(T{0})), n);
  });
  return {operand, true};
}

/// Whether rows of whole vectors are.
inline bool all_finite(ConstView<BrainFloat, 2> x) {
  Vec<float> any(0.0F);
  for (Index k = 0; k < x.extent(0); ++k)
    for (Index i = 0; i < x.extent(1); i += Vec<float>::lanes) any = fma(widened(x.row(k) + i), Vec<float>(0.0F), any);
  return sum(any) == 0;
}

/// to += factor·scale·x where the latter two are not finite
template <class T>
void add_not_finite(const T* x, T scale, T factor, T* to, Index width) {
  for_vectors<T>(width, [&](Index e, auto n) {
    const Vec<T> term = load(x + e, n) * Vec<T>(scale), sum = load(to + e, n);
    store(to + e, where_finite(term, sum, fma(term, Vec<T>(factor), sum)), n);
  });
}
/// x, widened at `to` with 0 for what is not finite.
inline Panels<float> finite_panels(const Panels<BrainFloat>& x, float* to) {
  const Panels<float> wide = x.widen(to);
  for (Index p = 0; p < wide.panels(); ++p) {
    const Index column_count = (std::min)(Tile<float>::width, wide.width - p * Tile<float>::width);
    for (Index k = 0; k < wide.depth; ++k)
      for (Index j = 0; j < column_count; j += Vec<float>::lanes) {
        float* const at = to + p * wide.panel_stride + k * wide.row_stride + j;
        where_finite(Vec<float>::load(at), Vec<float>::load(at), Vec<float>(0.0F)).store(at);
      }
  }
  return wide;
}
/// to += factor·x where x, a row of whole vectors, is not finite
inline void add_not_finite(const BrainFloat* x, float factor, float* to, Index width) {
  for_vectors<float>(width, [&](Index e, auto n) {
    const Vec<float> term = widened(x + e), sum = load(to + e, n);
    store(to + e, where_finite(term, sum, fma(term, Vec<float>(factor), sum)), n);
  });
}

}  // namespace eigenformer::kernel::detail
