// How cached keys and values lie: in blocks of consecutive tokens, each head's keys as the panels and its values as the
// rows that attention multiplies by, so that a step reads every byte once and packs nothing. The numbers may be in a
// format below 32 bits.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "eigenformer/core/format.hpp"
#include "eigenformer/core/half.hpp"
#include "eigenformer/core/view.hpp"
#include "eigenformer/kernel/operand.hpp"
#include "eigenformer/kernel/quantize.hpp"
#include "eigenformer/kernel/simd.hpp"

namespace eigenformer::inline EIGENFORMER_ABI::kernel {

/// Rows of narrow panels that are widened at a time.
inline constexpr Index widened_rows = 64;

/// A packed right operand (K, N) like Operand, of numbers R that products widen, if they are not yet.
template <class R>
struct Panels {
  const R* data = nullptr;
  Index depth = 0, width = 0;  // K, N
  Index panel_stride = 0, row_stride = 0;

  Index panels() const { return (width + Tile<float>::width - 1) / Tile<float>::width; }
  /// Rows [k, k + count) of a panel as floats: at `to`, or where they are.
  Operand<float> widen(Index panel, Index k, Index count, float* to) const {
    const Index column_count = (std::min)(Tile<float>::width, width - panel * Tile<float>::width);
    const R* from = data + panel * panel_stride + k * row_stride;
    if constexpr (std::is_same_v<R, float>) {
      return Operand<float>::packed(from, count, column_count, 0, row_stride);
    } else {
      for (Index i = 0; i < count; ++i, from += row_stride)
        for (Index j = 0; j < column_count; j += Vec<float>::lanes)
          widened(from + j).store(to + i * Tile<float>::width + j);
      return Operand<float>::packed(to, count, column_count);
    }
  }
  /// All of them, at `to`, which has room for Operand::size(K, N).
  Panels<float> widen(float* to) const {
    const Index size = depth * Tile<float>::width;
    for (Index p = 0; p < panels(); ++p) widen(p, 0, depth, to + p * size);
    return {to, depth, width, size, Tile<float>::width};
  }
};

namespace detail {

/// by·x (count) in a format → the scale of what is stored: 1, or of whole numbers NaN if x is not finite.
inline float narrow(const float* x, Index count, float by, BrainFloat* to) {
  for (Index i = 0; i < count; ++i) to[i] = to_brain_float(x[i] * by);
  return 1;
}
inline float narrow(const float* x, Index count, float by, std::int8_t* to) {
  const float scale = largest_magnitude(x, count) / 127;
  if (scale > smallest_scale) to_bytes(x, count, 1 / scale, -127, 127, reinterpret_cast<std::uint8_t*>(to));
  else std::fill_n(to, count, std::int8_t{0});  // not finite, or too small for an inverse
  return scale * by;
}

}  // namespace detail

/// Room for `capacity` tokens of K heads of width E. One head: in int8 the scales of its keys (capacity), then of its
/// values (capacity); keys (E, capacity) in panels, then values (capacity, E), rows of whole vectors.
template <class T>
struct KvBlock {
  T* data = nullptr;
  Index capacity = 0, heads = 0, width = 0;
  Format format = Format::scalar;  // or, of float, bf16 or int8: whole numbers times a scale for each token

  /// Whether there is such a block.
  static constexpr bool keeps(Format format) {
    return format == Format::scalar || (std::is_same_v<T, float> && (format == Format::bf16 || format == Format::int8));
  }

  /// The least capacity that holds so many tokens, at most `limit`: it grows by vectors, then by doubling panels.
  static Index fitting(Index tokens, Index limit) {
    if (tokens <= Tile<T>::width) return (tokens + Vec<T>::lanes - 1) / Vec<T>::lanes * Vec<T>::lanes;
    Index capacity = Tile<T>::width;
    while (capacity < tokens) capacity *= 2;
    return (std::min)(capacity, limit);
  }

  Index padded_width() const { return (width + Vec<T>::lanes - 1) / Vec<T>::lanes * Vec<T>::lanes; }
  /// Elements of T that a head takes, and all heads.
  Index head_size() const { return static_cast<Index>(head_elements()); }
  Index size() const { return heads * head_size(); }
  std::int64_t bytes() const { return heads * head_elements() * static_cast<std::int64_t>(sizeof(T)); }

  bool has_scales() const { return format == Format::int8; }
  T* key_scales(Index h) const { return data + h * head_size(); }
  T* value_scales(Index h) const { return key_scales(h) + capacity; }

  // R is the type of the numbers that are kept.
  template <class R = T>
  R* keys(Index h) const {
    return reinterpret_cast<R*>(data + h * head_size() + scale_count());
  }
  template <class R = T>
  R* values(Index h) const {
    return keys<R>(h) + width * capacity;
  }
  Index key_stride() const { return (std::min)(capacity, Tile<T>::width); }
  template <class R = T>
  R* key_column(Index h, Index token) const {
    return keys<R>(h) + token / Tile<T>::width * Tile<T>::width * width + token % Tile<T>::width;
  }
  template <class R = T>
  R* value_row(Index h, Index token) const {
    return values<R>(h) + token * padded_width();
  }

  /// f(R()) for it.
  void with_numbers(auto&& f) const {
    if constexpr (std::is_same_v<T, float>) {
      if (format == Format::bf16) return f(BrainFloat());
      if (format == Format::int8) return f(std::int8_t());
    }
    f(T());
  }

  /// The first `tokens` as right operands: keys (E, tokens), values (tokens, E).
  Operand<T> key_operand(Index h, Index tokens) const {
    return Operand<T>::packed(keys(h), width, tokens, Tile<T>::width * width, key_stride());
  }
  Operand<T> value_operand(Index h, Index tokens) const {
    return Operand<T>::packed(values(h), tokens, width, Tile<T>::width, padded_width());
  }
  template <class R>
  Panels<R> key_panels(Index h, Index tokens) const {
    return {keys<R>(h), width, tokens, Tile<T>::width * width, key_stride()};
  }
  template <class R>
  Panels<R> value_panels(Index h, Index tokens) const {
    return {values<R>(h), tokens, width, Tile<T>::width, padded_width()};
  }

  template <class R = T>
  ConstView<R, 2> value_rows(Index h, Index tokens) const {
    return {values<R>(h), {tokens, width}, {padded_width(), 1}};
  }

  /// Tokens first, first + 1, … of head h: scale·key and value (tokens, E). Products read whole vectors, so what is
  /// beyond in them is 0: the memory may hold anything, signalling NaN too.
  void put(Index h, Index first, ConstView<T, 2> key, ConstView<T, 2> value, T scale) const {
    with_numbers([&](auto number) {
      using R = decltype(number);
      if constexpr (std::is_same_v<R, T>) put_numbers(h, first, key, value, scale);
      else put_narrow<R>(h, first, key, value, scale);
    });
  }

  /// The first `tokens` of another block in the same format.
  void copy(const KvBlock& from, Index tokens) const {
    with_numbers([&](auto number) { copy_numbers<decltype(number)>(from, tokens); });
    const Index whole = (tokens + Vec<T>::lanes - 1) / Vec<T>::lanes * Vec<T>::lanes;
    for (Index h = 0; has_scales() && h < heads; ++h) {
      std::copy_n(from.key_scales(h), whole, key_scales(h));
      std::copy_n(from.value_scales(h), tokens, value_scales(h));
    }
  }

 private:
  Index scale_count() const { return has_scales() ? 2 * capacity : 0; }
  std::int64_t head_elements() const {
    constexpr auto size = static_cast<std::int64_t>(sizeof(T));
    const std::int64_t numbers = std::int64_t{capacity} * (std::int64_t{width} + padded_width()),
                       bytes = format == Format::int8   ? 1
                               : format == Format::bf16 ? 2
                                                        : size;
    return scale_count() + (numbers * bytes + size - 1) / size;
  }

  void put_numbers(Index h, Index first, ConstView<T, 2> key, ConstView<T, 2> value, T scale) const {
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

  template <class R>
  void put_narrow(Index h, Index first, ConstView<T, 2> key, ConstView<T, 2> value, T scale) const {
    for (Index i = 0; i < key.extent(0); ++i) {
      const Index at = first + i, begun = at % Vec<T>::lanes == 0 ? Vec<T>::lanes : 0;  // a new vector of column_count
      R *const column = key_column<R>(h, at), *const row = value_row<R>(h, at);
      const T of_key = detail::narrow(key.row(i), width, scale, row);  // where the value comes afterwards
      for (Index e = 0; e < width; ++e) {
        std::fill_n(column + e * key_stride(), begun, R{});
        column[e * key_stride()] = row[e];
      }
      const T of_value = detail::narrow(value.row(i), width, T{1}, row);
      std::fill_n(row + width, padded_width() - width, R{});
      if (!has_scales()) continue;
      std::fill_n(key_scales(h) + at, begun, T{0});
      key_scales(h)[at] = of_key;
      value_scales(h)[at] = of_value;
    }
  }

  template <class R>
  void copy_numbers(const KvBlock& from, Index tokens) const {
    for (Index h = 0; h < heads; ++h) {
      for (Index first = 0; first < tokens; first += Tile<T>::width)
        for (Index e = 0; e < width; ++e)
          std::copy_n(from.template key_column<R>(h, first) + e * from.key_stride(),
                      (std::min)((tokens - first + Vec<T>::lanes - 1) / Vec<T>::lanes * Vec<T>::lanes, Tile<T>::width),
                      key_column<R>(h, first) + e * key_stride());
      std::copy_n(from.template values<R>(h), tokens * padded_width(), values<R>(h));
    }
  }
};

}  // namespace eigenformer::kernel
