// The right operand of a product, and its packed form: panels as wide as the register tile, k-major. It is packed
// ahead, or block by block where it is used. Or its packed form is in words of a format below 32 bits.
#pragma once

#include <algorithm>
#include <cassert>
#include <type_traits>

#include "eigenformer/core/threads.hpp"
#include "eigenformer/core/view.hpp"
#include "eigenformer/kernel/quantize.hpp"
#include "eigenformer/kernel/row.hpp"
#include "eigenformer/kernel/simd.hpp"

namespace eigenformer::inline EIGENFORMER_ABI::kernel {

/// rows × vectors accumulators, `vectors` registers of the right operand and one of the left fill the register file.
template <Real T>
struct Tile {
#if defined(__AVX512F__) || defined(__ARM_NEON)
  static constexpr int rows = 6, vectors = 4;  // 32 registers
#else
  static constexpr int rows = 4, vectors = 3;  // 16 registers
#endif
  static constexpr Index width = vectors * Vec<T>::lanes;
};

namespace detail {

/// One panel of B = scale·wᵀ: `count` ≤ Tile width rows of w, `depth` long, become columns of rows `width` apart; zero
/// up to a whole vector.
template <class T>
void pack_panel_transposed(const T* w, Index w_stride, Index count, Index depth, T scale, T* to,
                           Index width = Tile<T>::width) {
  constexpr Index lanes = Vec<T>::lanes;
  for (Index first = 0; first < count; first += lanes) {
    T* const out = to + first;
    const T* const in = w + first * w_stride;
    const Index column_count = (std::min)(count - first, lanes);
    Index k = 0;
    for (; k + lanes <= depth; k += lanes) {
      Vec<T> block[static_cast<std::size_t>(lanes)];
      for (Index i = 0; i < lanes; ++i)
        block[i] = i < column_count ? Vec<T>::load(in + i * w_stride + k) * Vec<T>(scale) : Vec<T>(T{0});
      transpose(block);
      for (Index i = 0; i < lanes; ++i) block[i].store(out + (k + i) * width);
    }
    for (; k < depth; ++k) {
      for (Index i = 0; i < column_count; ++i) out[k * width + i] = in[i * w_stride + k] * scale;
      std::fill_n(out + k * width + column_count, lanes - column_count, T{0});
    }
  }
}

/// One panel of scale·B as it lies: `depth` rows of `count` ≤ Tile width elements; zero beyond.
template <class T>
void pack_panel(const T* b, Index b_stride, Index count, Index depth, T scale, T* to) {
  constexpr Index width = Tile<T>::width, lanes = Vec<T>::lanes;
  for (Index k = 0; k < depth; ++k, b += b_stride, to += width) {
    if (count == width) {
      unroll<Tile<T>::vectors>([&](auto v) EIGENFORMER_INLINE_LAMBDA {
        (Vec<T>::load(b + v * lanes) * Vec<T>(scale)).store(to + v * lanes);
      });
      continue;
    }
    for_vectors<T>(count, [&](Index i, auto n) { store(to + i, load(b + i, n) * Vec<T>(scale), n); });
    std::fill_n(to + count, width - count, T{0});
  }
}

}  // namespace detail

/// The right operand B (K, N) of a product: its values as they lie, or a packed copy, or both. Packed, element (k, n)
/// is data[n / W · panel_stride + k · row_stride + n % W] with the tile's width W; products read whole vectors of a
/// row.
template <Real T>
struct Operand {
  Index depth = 0, width = 0;  // K, N
  const T* data = nullptr;     // the packed copy, or null
  Index panel_stride = 0, row_stride = 0;
  ConstView<T, 2> values{};  // B (K, N), or w = Bᵀ (N, K) if by_column; null: the packed copy is all that there is
  bool by_column = false;
  PackedWords words{};  // the packed copy, if it is in a format below 32 bits

  /// Panels one after the other, as pack() makes them.
  static Operand packed(const T* data, Index depth, Index width) {
    return packed(data, depth, width, depth * Tile<T>::width, Tile<T>::width);
  }
  static Operand packed(const T* data, Index depth, Index width, Index panel_stride, Index row_stride) {
    return {.depth = depth, .width = width, .data = data, .panel_stride = panel_stride, .row_stride = row_stride};
  }
  /// b (K, N)
  static Operand rows(ConstView<T, 2> b) { return {.depth = b.extent(0), .width = b.extent(1), .values = b}; }
  /// wᵀ for w (N, K), whose values may be null if it is packed at `data`.
  static Operand transposed(ConstView<T, 2> w, const T* data = nullptr) {
    Operand b = packed(data, w.extent(1), w.extent(0));
    b.values = w;
    b.by_column = true;
    return b;
  }

  bool is_packed() const { return data != nullptr || words.words != nullptr; }
  Index panels() const { return panels(width); }
  /// Columns of a panel.
  Index column_count(Index panel) const { return (std::min)(Tile<T>::width, width - panel * Tile<T>::width); }
  /// Elements of a packed copy.
  static Index size(Index depth, Index width) { return panels(width) * Tile<T>::width * depth; }

  /// Some rows of a panel, `stride` apart.
  struct Block {
    const T* data;
    Index stride;
  };
  /// Rows [k, k + count) of a panel: where they lie if it is packed; else packed into `scratch`, which may be null
  /// otherwise. All that reads an operand in whatever format gets it from here.
  Block block(Index panel, Index k, Index count, T* scratch) const {
    if (!is_packed()) {
      pack_block(panel, k, count, T{1}, scratch);
      return {scratch, Tile<T>::width};
    }
    assert(data != nullptr);
    return {data + panel * panel_stride + k * row_stride, row_stride};
  }

  /// Column n (K) as numbers, in whatever format: of the packed copy, if there is one.
  void column(Index n, T* to) const {
    if constexpr (std::is_same_v<T, float>)
      if (words.words) return words.column(n, to);
    if (!is_packed()) {
      for (Index k = 0; k < depth; ++k) to[k] = by_column ? values(n, k) : values(k, n);
      return;
    }
    const Block from = block(n / Tile<T>::width, 0, depth, nullptr);  // a column's elements are a line apart
    for (Index k = 0; k < depth; ++k) to[k] = from.data[k * from.stride + n % Tile<T>::width];
  }

  /// Packs rows [k, k + count) of a panel of scale·values.
  void pack_block(Index panel, Index k, Index count, T scale, T* to) const {
    const Index first = panel * Tile<T>::width;
    if (by_column)
      detail::pack_panel_transposed(values.row(first) + k, values.stride(0), column_count(panel), count, scale, to);
    else detail::pack_panel(values.row(k) + first, values.stride(0), column_count(panel), count, scale, to);
  }

 private:
  static Index panels(Index width) { return (width + Tile<T>::width - 1) / Tile<T>::width; }
};

/// scale·b, packed at `to`, which has room for Operand::size(K, N).
template <class T>
Operand<T> pack(const Threads& threads, const Operand<T>& b, T* to, T scale = 1) {
  const Index size = b.depth * Tile<T>::width;  // of a panel
  threads.parallel_for(b.panels(), row_grain(size), [&](Index begin, Index end) {
    for (Index p = begin; p < end; ++p) b.pack_block(p, 0, b.depth, scale, to + p * size);
  });
  return Operand<T>::packed(to, b.depth, b.width);
}

}  // namespace eigenformer::kernel
