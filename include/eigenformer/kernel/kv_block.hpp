// How cached keys and values lie: in blocks of consecutive tokens, each head's keys as the panels and its values as the
// rows that attention multiplies by, so that a step reads every byte once and packs nothing.
#pragma once

#include <algorithm>
#include <cstdint>

#include "eigenformer/core/view.hpp"
#include "eigenformer/kernel/operand.hpp"
#include "eigenformer/kernel/simd.hpp"

namespace eigenformer::inline EIGENFORMER_ABI::kernel {

/// Room for `capacity` tokens of K heads of width E. One head: keys (E, capacity) in panels, then values (capacity, E),
/// rows of whole vectors.
template <class T>
struct KvBlock {
  T* data = nullptr;
  Index capacity = 0, heads = 0, width = 0;

  /// The least capacity that holds so many tokens, at most `limit`: it grows by vectors, then by doubling panels.
  static Index fitting(Index tokens, Index limit) {
    if (tokens <= Tile<T>::width) return (tokens + Vec<T>::lanes - 1) / Vec<T>::lanes * Vec<T>::lanes;
    Index capacity = Tile<T>::width;
    while (capacity < tokens) capacity *= 2;
    return (std::min)(capacity, limit);
  }

  Index padded_width() const { return (width + Vec<T>::lanes - 1) / Vec<T>::lanes * Vec<T>::lanes; }
  Index head_size() const { return capacity * (width + padded_width()); }
  Index size() const { return heads * head_size(); }
  std::int64_t bytes() const {
    return std::int64_t{heads} * capacity * (std::int64_t{width} + padded_width()) *
           static_cast<std::int64_t>(sizeof(T));
  }

  T* keys(Index h) const { return data + h * head_size(); }
  T* values(Index h) const { return keys(h) + width * capacity; }
  Index key_stride() const { return (std::min)(capacity, Tile<T>::width); }
  T* key_column(Index h, Index token) const {
    return keys(h) + token / Tile<T>::width * Tile<T>::width * width + token % Tile<T>::width;
  }
  T* value_row(Index h, Index token) const { return values(h) + token * padded_width(); }

  /// The first `tokens` as right operands: keys (E, tokens), values (tokens, E).
  Operand<T> key_operand(Index h, Index tokens) const {
    return Operand<T>::packed(keys(h), width, tokens, Tile<T>::width * width, key_stride());
  }
  Operand<T> value_operand(Index h, Index tokens) const {
    return Operand<T>::packed(values(h), tokens, width, Tile<T>::width, padded_width());
  }

  ConstView<T, 2> value_rows(Index h, Index tokens) const { return {values(h), {tokens, width}, {padded_width(), 1}}; }

  /// Tokens first, first + 1, … of head h: scale·key and value (tokens, E). Products read whole vectors, so what is
  /// beyond in them is 0: the memory may hold anything, signalling NaN too.
  void put(Index h, Index first, ConstView<T, 2> key, ConstView<T, 2> value, T scale) const {
    const Index tokens = key.extent(0);
    for (Index i = 0; i < tokens;) {
      const Index at = first + i,
                  whole = (std::min)(tokens - i, Tile<T>::width - at % Tile<T>::width) / Vec<T>::lanes * Vec<T>::lanes;
      T* const column = key_column(h, at);
      if (at % Vec<T>::lanes == 0 && whole > 0) {
        detail::pack_panel_transposed(key.row(i), key.stride(0), whole, width, scale, column, key_stride());
        i += whole;
      } else {
        for (Index e = 0; e < width; ++e) {
          if (at % Vec<T>::lanes == 0) std::fill_n(column + e * key_stride(), Vec<T>::lanes, T{0});
          column[e * key_stride()] = key(i, e) * scale;
        }
        ++i;
      }
    }
    for (Index i = 0; i < tokens; ++i)
      std::fill_n(std::copy_n(value.row(i), width, value_row(h, first + i)), padded_width() - width, T{0});
  }

  /// The first `tokens` of another block.
  void copy(const KvBlock& from, Index tokens) const {
    for (Index h = 0; h < heads; ++h) {
      for (Index first = 0; first < tokens; first += Tile<T>::width)
        for (Index e = 0; e < width; ++e)
          std::copy_n(from.key_column(h, first) + e * from.key_stride(),
                      (std::min)((tokens - first + Vec<T>::lanes - 1) / Vec<T>::lanes * Vec<T>::lanes, Tile<T>::width),
                      key_column(h, first) + e * key_stride());
      std::copy_n(from.values(h), tokens * padded_width(), values(h));
    }
  }
};

}  // namespace eigenformer::kernel
