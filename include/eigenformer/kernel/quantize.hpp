// Numbers below 32 bits: how a right operand lies in words, how weights become such words once, and the rows that they
// are multiplied by on every call. Whole numbers and scales are symmetric: x ≈ q·scale, q = 0 for x = 0.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "eigenformer/core/arena.hpp"
#include "eigenformer/core/format.hpp"
#include "eigenformer/core/half.hpp"
#include "eigenformer/core/threads.hpp"
#include "eigenformer/core/view.hpp"
#include "eigenformer/kernel/dot.hpp"
#include "eigenformer/kernel/epilogue.hpp"
#include "eigenformer/kernel/row.hpp"
#include "eigenformer/kernel/simd.hpp"

namespace eigenformer::inline EIGENFORMER_ABI::kernel {

/// Columns of a panel of words, on every machine: what is written on one is read on another.
inline constexpr Index word_columns = 64;
/// Words along k that a product adds up before it goes on to float; whole numbers stay exact.
inline constexpr Index word_block = 512;

/// The packed form of a right operand (K, N) in a format below 32 bits. Panel p holds columns [64p, 64p + 64), zero
/// beyond N: for each row of words one word of every column. A word holds inputs k, k + 1 in bf16; k … k + 3 in int8,
/// as bytes q + 128; in int4 k … k + 3 in the lower halves of its bytes and k + 4 … k + 7 in the upper ones, as q + 8.
/// In f16 a row holds input k of every column, then k + 1. A group of inputs of a column shares a scale, times `unit`,
/// a power of two.
struct PackedWords {
  Format format = Format::bf16;
  Index depth = 0, width = 0;  // K, N
  Index group = 0;             // inputs; K is padded to a multiple of it. 0: one group, or a format without scales
  float unit = 1;
  const std::uint32_t* words = nullptr;  // (panels, rows, 64)
  const Half* scales = nullptr;          // (panels, groups, 64), or null
  /// C (M, N) = [C +] A·B, then the epilogue: multiply_words(), set by whoever makes the packed form, so that programs
  /// without such formats do not compile it.
  void (*multiply)(const Threads&, Arena&, ConstView<float, 2> a, const PackedWords& b, View<float, 2> c, bool add,
                   const Epilogue<float>&) = nullptr;

  Index inputs_per_word() const { return format == Format::int4 ? 8 : format == Format::int8 ? 4 : 2; }
  bool is_whole() const { return format == Format::int8 || format == Format::int4; }
  Index panels() const { return (width + word_columns - 1) / word_columns; }
  Index groups() const { return !is_whole() ? 0 : group == 0 ? 1 : (depth + group - 1) / group; }
  Index rows() const {
    const Index inputs = group == 0 ? depth : groups() * group;
    return (inputs + inputs_per_word() - 1) / inputs_per_word();
  }
  Index word_count() const { return panels() * rows() * word_columns; }
  Index scale_count() const { return panels() * groups() * word_columns; }
  /// Of words and scales, which follow them.
  std::size_t bytes() const {
    return static_cast<std::size_t>(word_count()) * sizeof(std::uint32_t) +
           static_cast<std::size_t>(scale_count()) * sizeof(Half);
  }
  PackedWords at(const std::byte* memory) const {
    PackedWords w = *this;
    w.words = reinterpret_cast<const std::uint32_t*>(memory);
    w.scales = groups() > 0 ? reinterpret_cast<const Half*>(w.words + word_count()) : nullptr;
    return w;
  }

  Index column_count(Index panel) const { return (std::min)(word_columns, width - panel * word_columns); }
  const std::uint32_t* panel(Index p) const { return words + p * rows() * word_columns; }
  float scale(Index column, Index of_group) const {
    return unit * widen(scales[(column / word_columns * groups() + of_group) * word_columns + column % word_columns]);
  }
  /// Element k of a column, as a number without its scale.
  float number(Index column, Index k) const {
    const Index inputs = inputs_per_word();
    const std::uint32_t* const row = panel(column / word_columns) + k / inputs * word_columns;
    if (format == Format::f16)
      return widen(reinterpret_cast<const Half*>(row)[k % 2 * word_columns + column % word_columns]);
    const std::uint32_t word = row[column % word_columns];
    const auto at = static_cast<unsigned>(k % inputs);
    switch (format) {
      case Format::int8: return static_cast<float>(static_cast<int>(word >> 8 * at & 0xffu) - 128);
      case Format::int4: return static_cast<float>(static_cast<int>(word >> (8 * (at % 4) + at / 4 * 4) & 0xfu) - 8);
      default: return widen(BrainFloat{static_cast<std::uint16_t>(word >> 16 * at)});
    }
  }
  /// A column (K) as floats, `stride` apart.
  void column(Index n, float* to, Index stride = 1) const {
    const Index shared = group == 0 ? depth : group;
    for (Index first = 0; first < depth; first += shared) {
      const float by = is_whole() ? scale(n, first / shared) : 1;
      for (Index k = first; k < (std::min)(first + shared, depth); ++k) to[k * stride] = number(n, k) * by;
    }
  }
};

namespace detail {

/// The same operand as memory to be written.
class WordsWriter {
 public:
  WordsWriter(const PackedWords& layout, std::byte* memory)
      : layout_(layout), rows_(layout.rows()), inputs_(layout.inputs_per_word()),
        words_(reinterpret_cast<std::uint32_t*>(memory)),
        scales_(reinterpret_cast<Half*>(words_ + layout.word_count())) {}

  /// Everything is 0.
  void clear_panel(Index p) const {
    const std::uint32_t nothing = layout_.format == Format::int8   ? 0x80808080u
                                  : layout_.format == Format::int4 ? 0x88888888u
                                                                   : 0u;
    std::fill_n(words_ + p * layout_.rows() * word_columns, layout_.rows() * word_columns, nothing);
    if (layout_.groups() > 0)
      std::fill_n(scales_ + p * layout_.groups() * word_columns, layout_.groups() * word_columns, Half{0});
  }
  /// Inputs [k, k + count) of a column, k a multiple of 8: signed bytes, readable and 0 up to a multiple of 8.
  void put(Index n, Index k, Index count, const std::uint8_t* q) const {
    const auto four = [&](Index i) {
      std::uint32_t word = 0;
      std::memcpy(&word, q + i, sizeof word);
      return word;
    };
    const auto halves = [&](Index i) { return (four(i) & 0x0f0f0f0fu) ^ 0x08080808u; };
    if (layout_.format == Format::int8)
      for (Index i = 0; i < count; i += 4) word_of(n, k + i) = four(i) ^ 0x80808080u;
    else
      for (Index i = 0; i < count; i += 8) word_of(n, k + i) = halves(i) | halves(i + 4) << 4;
  }
  void put(Index n, Index group, Half scale) const {
    scales_[(n / word_columns * layout_.groups() + group) * word_columns + n % word_columns] = scale;
  }
  /// Likewise numbers of 16 bits.
  void put(Index n, Index count, const float* x) const {
    for (Index k = 0; k < count; k += 2) {
      const float next = k + 1 < count ? x[k + 1] : 0;
      std::uint32_t* const word = &word_of(n, k);
      if (layout_.format == Format::bf16) {
        *word = std::uint32_t{to_brain_float(x[k]).bits} | std::uint32_t{to_brain_float(next).bits} << 16;
        continue;
      }
      Half* const first = reinterpret_cast<Half*>(word - n % word_columns) + n % word_columns;
      first[0] = to_half(x[k]);
      first[word_columns] = to_half(next);
    }
  }

 private:
  std::uint32_t& word_of(Index n, Index k) const {
    return words_[(n / word_columns * rows_ + k / inputs_) * word_columns + n % word_columns];
  }

  const PackedWords& layout_;
  Index rows_, inputs_;  // of words in a panel; of a word
  std::uint32_t* words_;
  Half* scales_;
};

/// Signed bytes of whole numbers x·inverse, to the nearest, of two the even one, from `least` to `most`; returns their
/// sum, which is exact below 2²⁴.
EIGENFORMER_INLINE float to_bytes(const float* x, Index count, float inverse, float least, float most,
                                  std::uint8_t* to) {
  constexpr Index lanes = Vec<float>::lanes;
  // Added to a number below 2²², this leaves its nearest integer in the low bits.
  const Vec<float> by(inverse), shift(integer_shift), low(least), high(most);
  Vec<float> total(0.0F);
  for_vectors<float>(count, [&](Index i, auto n) EIGENFORMER_INLINE_LAMBDA {
    const Vec<float> shifted = minimum(maximum(load(x + i, n) * by, low), high) + shift;
    total = total + (shifted - shift);
#ifdef EIGEN_VECTORIZE_AVX512
    if constexpr (lanes == 16) {
      const __m128i bytes = _mm512_cvtepi32_epi8(_mm512_castps_si512(shifted.packet));
      if (n == lanes) _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), bytes);
      else std::memcpy(to + i, &bytes, static_cast<std::size_t>(n));
      return;
    }
#endif
    float values[static_cast<std::size_t>(lanes)];
    shifted.store(values);
    for (Index j = 0; j < n; ++j) to[i + j] = static_cast<std::uint8_t>(std::bit_cast<std::uint32_t>(values[j]));
  });
  return sum(total);
}

/// Quantises groups of a column to whole numbers from `least` to `most`. `searches`: for the scale of the least error;
/// else the largest number decides.
struct GroupQuantizer {
  float least, most;
  bool searches;

  /// Signed bytes of x (count) for the scale that it returns, a half times `unit`. `importance` (count) says how much
  /// an error of each input counts; null: all alike.
  Half operator()(const float* x, const float* importance, Index count, float unit, std::uint8_t* q) const {
    float largest = 0;
    for (Index i = 0; i < count; ++i)
      if ((std::abs)(x[i]) > (std::abs)(largest)) largest = x[i];
    const float scale = searches && largest != 0 ? search(x, importance, count, largest) : (std::abs)(largest) / most;
    const Half stored = to_half(scale / unit);
    const float used = widen(stored) * unit;
    to_bytes(x, count, used == 0 ? 0 : 1 / used, least, most, q);
    return stored;
  }

 private:
  /// Candidates put the largest number at −9 … −6.6; the best scale for the whole numbers that one gives follows from
  /// least squares.
  float search(const float* x, const float* importance, Index count, float largest) const {
    constexpr int candidates = 13;
    const Vec<float> low(least), high(most), inverse(1 / largest);
    float best = 1 / least, best_gain = -1;  // in units of the largest
    for (int c = 0; c < candidates; ++c) {
      const Vec<float> steps(least - 1.0F + 0.2F * static_cast<float>(c));
      Vec<float> along(0.0F), square(0.0F);
      for_vectors<float>(count, [&](Index i, auto n) EIGENFORMER_INLINE_LAMBDA {
        const Vec<float> at = load(x + i, n) * inverse, whole = minimum(maximum(nearest(at * steps), low), high),
                         weight = importance ? load(importance + i, n) * whole : whole;
        along = fma(weight, at, along);
        square = fma(weight, whole, square);
      });
      // The error is Σ w·x² − along²/square.
      const float a = sum(along), b = sum(square);
      if (b > 0 && a * a > best_gain * b) best_gain = a * a / b, best = a / b;
    }
    return best * largest;
  }
};

}  // namespace detail

/// Packs w = Bᵀ (N, K) at `memory`, which has room for layout.bytes(). `importance` (K), or null, weighs the errors of
/// int4. Elements must be finite, and those of f16 less than 65520. Uses layout.unit.
inline void quantize(const Threads& threads, ConstView<float, 2> w, const PackedWords& layout, const float* importance,
                     std::byte* memory) {
  const detail::WordsWriter writer(layout, memory);
  const Index shared = layout.group == 0 ? layout.depth : layout.group;
  threads.parallel_for(layout.panels(), 1, [&](Index begin, Index end) {
    std::vector<std::uint8_t> whole(static_cast<std::size_t>(layout.is_whole() ? shared + 8 : 0));  // zeros beyond
    const bool four_bits = layout.format == Format::int4;
    const detail::GroupQuantizer quantizer{four_bits ? -8.0F : -127.0F, four_bits ? 7.0F : 127.0F, four_bits};
    for (Index p = begin; p < end; ++p) {
      writer.clear_panel(p);
      for (Index n = p * word_columns; n < p * word_columns + layout.column_count(p); ++n) {
        const float* const x = w.row(n);
        if (!layout.is_whole()) writer.put(n, layout.depth, x);
        else
          for (Index g = 0; g * shared < layout.depth; ++g) {
            const Index first = g * shared, count = (std::min)(shared, layout.depth - first);
            writer.put(
                n, g,
                quantizer(x + first, importance ? importance + first : nullptr, count, layout.unit, whole.data()));
            std::fill_n(whole.data() + count, 8, std::uint8_t{0});
            writer.put(n, first, count, whole.data());
          }
      }
    }
  });
}

/// A power of two for the scales of whole numbers up to `largest` in magnitude: over it they are at most 2⁹, so that a
/// half holds those 2²³ times as small, too.
inline float scale_unit(float largest, Format format) {
  if (!(largest > 0)) return 1;
  const int exponent = std::ilogb(largest / (format == Format::int4 ? 7.0F : 127.0F));
  return std::ldexp(1.0F, (std::max)(exponent - 8, -126));
}

/// Of numbers that are rounded as they come: those of smaller ones, which have no inverse in float, become 0.
inline constexpr float smallest_scale = 1e-36F;

/// The rows x (M, K) that words are multiplied by, in the same format, zero beyond K; as floats where a product takes
/// these, and for f16 not rounded.
struct LeftRows {
  const std::uint32_t* words = nullptr;  // (M, stride), or
  const float* floats = nullptr;
  Index stride = 0;
  // Of whole numbers, for each row and piece of word_block words or a group, if that is less:
  Index pieces = 0;
  const float* scales = nullptr;          // times unit; NaN where the row has NaN or ∞
  const std::int32_t* offsets = nullptr;  // −(what stands for 0 in the stored right operand) · the sum of the piece
};

namespace detail {

/// The largest magnitude; NaN or ∞ if there is one.
inline float largest_magnitude(const float* x, Index count) {
  Vec<float> most(0.0F), any(0.0F);
  for_vectors<float>(count, [&](Index i, auto n) {
    const Vec<float> at = absolute(load(x + i, n));
    most = maximum(most, at);
    any = fma(at, Vec<float>(0.0F), any);  // NaN for NaN and ∞, which maximum() may lose
  });
  return largest(most) + sum(any);
}

}  // namespace detail

/// Rows of x for a product with b, in the arena if x itself does not serve.
inline LeftRows left_rows(const Threads& threads, Arena& arena, ConstView<float, 2> x, const PackedWords& b) {
  LeftRows left;
  const Index count = x.rows();
  const auto each_row = [&](auto&& f) {
    threads.parallel_for(count, row_grain(b.depth), [&](Index begin, Index end) {
      for (Index i = begin; i < end; ++i) f(i, x.row(i));
    });
  };
  if (!b.is_whole()) {
    if (b.format == Format::f16 && b.depth % 2 == 0) return {.floats = x.data(), .stride = x.stride(0)};
    left.stride = (b.depth + 1) / 2;
    if (b.format == Format::bf16 && has_brain_float_dot) {
      auto* const words = arena.allocate<std::uint32_t>(count * left.stride);
      each_row([&](Index i, const float* row) {
        std::uint32_t* const to = words + i * left.stride;
        to[left.stride - 1] = 0;
        to_brain_floats(row, b.depth, reinterpret_cast<std::uint16_t*>(to));
      });
      left.words = words;
      return left;
    }
    left.stride *= 2;
    auto* const floats = arena.allocate<float>(count * left.stride);
    each_row([&](Index i, const float* row) {
      float* const to = floats + i * left.stride;
      if (b.format == Format::f16) std::copy_n(row, b.depth, to);
      else
        for_vectors<float>(b.depth, [&](Index k, auto n) { store(to + k, round_to_brain_float(load(row + k, n)), n); });
      if (b.depth % 2 == 1) to[b.depth] = 0;
    });
    left.floats = floats;
    return left;
  }
  constexpr Index most = 4 * word_block;  // inputs of a piece
  const Index shared = b.group == 0 ? b.depth : b.group, padded = b.rows() * b.inputs_per_word(),
              piece = (std::min)(b.group == 0 ? padded : b.group, most);
  left.stride = padded / 4;
  left.pieces = (padded + piece - 1) / piece;
  auto* const words = arena.allocate<std::uint32_t>(count * left.stride);
  auto* const scales = arena.allocate<float>(count * left.pieces);
  auto* const offsets = arena.allocate<std::int32_t>(count * left.pieces);
  left.words = words, left.scales = scales, left.offsets = offsets;
  const std::int32_t zero = b.format == Format::int4 ? 8 : 128;
  each_row([&](Index i, const float* row) {
    auto* const bytes = reinterpret_cast<std::uint8_t*>(words + i * left.stride);
    std::fill(bytes + b.depth, bytes + padded, std::uint8_t{0});
    float scale = 0;
    Vec<float> lost(0.0F);  // NaN for NaN and ∞, which maximum() may lose
    for (Index p = 0, first = 0; first < padded; ++p, first += piece) {
      if (first % shared == 0) {
        Vec<float> most_of_all(0.0F);
        for_vectors<float>((std::min)(shared, b.depth - first), [&](Index k, auto n) EIGENFORMER_INLINE_LAMBDA {
          const Vec<float> at = absolute(load(row + first + k, n));
          most_of_all = maximum(most_of_all, at);
          lost = fma(at, Vec<float>(0.0F), lost);
        });
        scale = largest(most_of_all) / 127;
      }
      const float total = detail::to_bytes(row + first, (std::min)(piece, b.depth - first),
                                           scale > smallest_scale ? 1 / scale : 0, -127, 127, bytes + first);
      scales[i * left.pieces + p] = scale * b.unit;
      offsets[i * left.pieces + p] = total == total ? -zero * static_cast<std::int32_t>(total) : 0;
    }
    if (const float nothing = sum(lost); !(nothing == 0)) scales[i * left.pieces] = nothing;
  });
  return left;
}

}  // namespace eigenformer::kernel
