// Products with a right operand in words: the tiles of gemm.hpp, a word of several inputs at a time. Every element is a
// chain over the pieces of its inputs in order, whatever rows are with it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>

#include "eigenformer/core/arena.hpp"
#include "eigenformer/core/threads.hpp"
#include "eigenformer/core/view.hpp"
#include "eigenformer/kernel/dot.hpp"
#include "eigenformer/kernel/epilogue.hpp"
#include "eigenformer/kernel/quantize.hpp"
#include "eigenformer/kernel/simd.hpp"

namespace eigenformer::inline EIGENFORMER_ABI::kernel {

namespace detail {

/// What a tile does with a row of words: `lefts` times, it takes a part of each word and multiplies it by an element of
/// the row of A. Part i is that of element at(i).
struct Int8Tile {
  using Left = std::uint32_t;
  using Lanes = LaneWords<Vec<float>::lanes>;
  using Sums = Lanes;
  static constexpr int lefts = 1;
  static constexpr bool whole = true;
  static constexpr Index at(int i) { return i; }
  static EIGENFORMER_INLINE Lanes load(const std::uint32_t* row, Index column, auto) {
    return Lanes::load(row + column);
  }
  static EIGENFORMER_INLINE Lanes all(Left a) { return Lanes::all(a); }
  static EIGENFORMER_INLINE Sums add(Sums sums, Lanes right, Lanes left) {
    return Lanes::add_products(sums, right, left);
  }
};
/// Of bytes up to 15, as unpack_nibbles() makes them of int4.
template <class Words>
struct SmallByteTile : Int8Tile {
  static EIGENFORMER_INLINE Words add(Words sums, Words right, Words left) {
    return Words::add_small_products(sums, right, left);
  }
};
using UnpackedTile = std::conditional_t<has_small_products<Int8Tile::Lanes>, SmallByteTile<Int8Tile::Lanes>, Int8Tile>;
struct Int4Tile : UnpackedTile {
  static constexpr int lefts = 2;
  static EIGENFORMER_INLINE Lanes load(const std::uint32_t* row, Index column, auto part) {
    const Lanes words = Lanes::load(row + column);
    if constexpr (part == 0) return words.low_nibbles();
    else return words.high_nibbles();
  }
};
/// Of bf16 by the machine's instruction.
struct BrainFloatDotTile : Int8Tile {
  using Sums = Vec<float>;
  static constexpr bool whole = false;
  static EIGENFORMER_INLINE Sums add(Sums sums, Lanes right, Lanes left) {
    return add_brain_float_products(sums, right, left);
  }
};
/// Of bf16 by rows kept as floats: the same sums.
struct BrainFloatTile {
  using Left = float;
  using Sums = Vec<float>;
  static constexpr int lefts = 2;
  static constexpr bool whole = false;
  static constexpr Index at(int i) { return 1 - i; }
  static EIGENFORMER_INLINE Vec<float> load(const std::uint32_t* row, Index column, auto part) {
    const auto words = LaneWords<Vec<float>::lanes>::load(row + column);
    if constexpr (part == 0) return words.high_brain_float();
    else return words.low_brain_float();
  }
  static EIGENFORMER_INLINE Vec<float> all(Left a) { return Vec<float>(a); }
  static EIGENFORMER_INLINE Sums add(Sums sums, Vec<float> right, Vec<float> left) { return fma(left, right, sums); }
};
struct HalfTile : BrainFloatTile {
  static constexpr Index at(int i) { return i; }
  static EIGENFORMER_INLINE Vec<float> load(const std::uint32_t* row, Index column, auto part) {
    return widen_halves(reinterpret_cast<const Half*>(row) + part * word_columns + column);
  }
};

template <class Left>
struct WordTileInput {
  const Left* a;
  Index a_stride;
  const std::uint32_t* b;      // rows of word_columns
  Index rows, piece;           // of b; those of a piece
  bool add;                    // to what c holds
  const std::uint32_t* ahead;  // a line at each row's distance is asked for meanwhile
  // Whole numbers: of piece i of row m scales[m·a_pieces + i] and offsets likewise; of b b_scales + i·b_scale_stride.
  const float* a_scales = nullptr;
  const std::int32_t* a_offsets = nullptr;
  Index a_pieces = 0;
  const Half* b_scales = nullptr;
  Index b_scale_stride = 0;
};

#if defined(__AVX512F__) || defined(__ARM_NEON)
inline constexpr int word_rows = 6, word_vectors = 4;
#else
inline constexpr int word_rows = 4, word_vectors = 2;
#endif

/// Keeps the compiler from remembering what it loaded through a pointer.
template <class T>
EIGENFORMER_INLINE void load_again([[maybe_unused]] const T*& pointer) {
#ifdef __GNUC__
  asm("" : "+r"(pointer));
#endif
}

/// c (Rows, count ≤ word_columns) = [c +] a·b, whole vectors of it.
template <class Tile, int Rows>
void word_tile(WordTileInput<typename Tile::Left> in, float* c, Index c_stride, Index count) {
  using V = Vec<float>;
  constexpr int vectors = word_vectors;
  const auto each = [](auto&& f) EIGENFORMER_INLINE_LAMBDA {
    unroll<Rows>([&](auto i) EIGENFORMER_INLINE_LAMBDA {
      unroll<vectors>([&](auto j) EIGENFORMER_INLINE_LAMBDA { f(i, j, i * vectors + j); });
    });
  };
  for (Index column = 0; column < count; column += vectors * V::lanes) {
    V totals[static_cast<std::size_t>(Rows * vectors)];
    each([&](auto i, auto j, auto n) EIGENFORMER_INLINE_LAMBDA {
      if constexpr (Tile::whole) totals[n] = in.add ? V::load(c + i * c_stride + column + j * V::lanes) : V(0.0F);
    });
    typename Tile::Sums sums[static_cast<std::size_t>(Rows * vectors)];
    for (Index row = 0, piece = 0; row < in.rows; row += in.piece, ++piece) {
      each([&](auto i, auto, auto n) EIGENFORMER_INLINE_LAMBDA {
        if constexpr (Tile::whole)
          sums[n] = Tile::Sums::all(static_cast<std::uint32_t>(in.a_offsets[i * in.a_pieces + piece]));
        else sums[n] = V(0.0F);
      });
      const std::uint32_t* b = in.b + row * word_columns;
      const typename Tile::Left* a = in.a + row * Tile::lefts;
      const std::uint32_t* ahead = in.ahead + row * word_columns;
      for (Index k = (std::min)(in.piece, in.rows - row); k > 0;
           --k, a += Tile::lefts, b += word_columns, ahead += word_columns) {
        prefetch_far(ahead);
        if constexpr (Tile::whole)
          unroll<4>([&](auto i) EIGENFORMER_INLINE_LAMBDA { prefetch(b + 8 * word_columns + i * 16); });
        unroll<Tile::lefts>([&](auto part) EIGENFORMER_INLINE_LAMBDA {
          decltype(Tile::load(b, 0, part)) right[static_cast<std::size_t>(vectors)];
          load_again(b);  // to keep the words for the next part would take registers from the sums
          unroll<vectors>([&](auto j) EIGENFORMER_INLINE_LAMBDA {
            right[j] = Tile::load(b, column + j * V::lanes, part);
            if constexpr (requires { right[j].keep(); }) right[j].keep();
          });
          unroll<Rows>([&](auto i) EIGENFORMER_INLINE_LAMBDA {
            const auto left = Tile::all(a[i * in.a_stride + Tile::at(part)]);
            unroll<vectors>([&](auto j) EIGENFORMER_INLINE_LAMBDA {
              sums[i * vectors + j] = Tile::add(sums[i * vectors + j], right[j], left);
            });
          });
        });
      }
      if constexpr (Tile::whole) {
        V scales[static_cast<std::size_t>(vectors)];
        unroll<vectors>([&](auto j) EIGENFORMER_INLINE_LAMBDA {
          scales[j] = widen_halves(in.b_scales + piece * in.b_scale_stride + column + j * V::lanes);
        });
        each([&](auto i, auto j, auto n) EIGENFORMER_INLINE_LAMBDA {
          totals[n] = fma(sums[n].to_float(), scales[j] * V(in.a_scales[i * in.a_pieces + piece]), totals[n]);
        });
      }
    }
    each([&](auto i, auto j, auto n) EIGENFORMER_INLINE_LAMBDA {
      float* const to = c + i * c_stride + column + j * V::lanes;
      if constexpr (Tile::whole) totals[n].store(to);
      else (in.add ? V::load(to) + sums[n] : sums[n]).store(to);
    });
  }
}

template <class Tile, int Rows = word_rows>
void any_word_tile(Index rows, const WordTileInput<typename Tile::Left>& in, float* c, Index c_stride, Index count) {
  if constexpr (Rows > 1)
    if (rows < Rows) return any_word_tile<Tile, Rows - 1>(rows, in, c, c_stride, count);
  if (count % (word_vectors * Vec<float>::lanes) == 0) return word_tile<Tile, Rows>(in, c, c_stride, count);
  float buffer[static_cast<std::size_t>(Rows * word_columns)] = {};
  for (Index i = 0; in.add && i < Rows; ++i) std::copy_n(c + i * c_stride, count, buffer + i * word_columns);
  word_tile<Tile, Rows>(in, buffer, word_columns, count);
  for (Index i = 0; i < Rows; ++i) std::copy_n(buffer + i * word_columns, count, c + i * c_stride);
}

/// Rows [row, row + count) of a panel of int4 as int8 that stands for the same numbers: two rows for each.
inline void unpack_nibbles(const std::uint32_t* from, Index rows, std::uint32_t* to) {
  using W = LaneWords<Vec<float>::lanes>;
  for (Index i = 0; i < rows * word_columns; i += Vec<float>::lanes) {
    const W words = W::load(from + i);
    std::uint32_t* const at = to + i / word_columns * 2 * word_columns + i % word_columns;
    words.low_nibbles().store(at);
    words.high_nibbles().store(at + word_columns);
  }
}

/// C (M, N) = [C +] A·B in tasks: a block of rows by some panels, through k block by block.
class WordProduct {
 public:
  WordProduct(const Threads& threads, Arena& arena, ConstView<float, 2> a, const PackedWords& b, View<float, 2> c,
              bool add, const Epilogue<float>& epilogue)
      : a_(a), b_(b), c_(c), add_(add), epilogue_(epilogue), groups_((a.rows() + word_rows - 1) / word_rows),
        row_blocks_((groups_ + groups_per_block - 1) / groups_per_block), rows_(b.rows()),
        scales_(b.groups() * word_columns), piece_(b.group == 0 ? word_block : b.group / 4),
        unpacks_(b.format == Format::int4 && a.rows() > 2 * word_rows), panels_per_task_(row_blocks_ > 1 ? 4 : 1) {
    left_ = left_rows(threads, arena, a, b);
    if (unpacks_) unpacked_ = arena.allocate<std::uint32_t>(threads.count() * word_block * word_columns);
  }

  void run(const Threads& threads) const {
    const Index panel_tasks = (b_.panels() + panels_per_task_ - 1) / panels_per_task_;
    const Index work = (std::max)(a_.rows() / (std::max)(row_blocks_, Index{1}) * panels_per_task_ * rows_, Index{1});
    threads.parallel_for(row_blocks_ * panel_tasks, 10000 / work, [&](Index begin, Index end, int slot) {
      for (Index task = begin; task < end; ++task) {
        const Index first = task / row_blocks_ * panels_per_task_;
        run_task(task % row_blocks_, first, (std::min)(first + panels_per_task_, b_.panels()), slot);
      }
    });
  }

 private:
  static constexpr Index groups_per_block = 96 / word_rows;

  Index group_begin(Index group) const { return static_cast<Index>(std::int64_t{a_.rows()} * group / groups_); }

  void run_task(Index row_block, Index first_panel, Index last_panel, int slot) const {
    const Index first = row_block * groups_per_block, last = (std::min)(first + groups_per_block, groups_);
    const Index step = b_.format == Format::int4 ? word_block / 2 : word_block;  // rows of b
    Index row = 0;
    do {
      for (Index p = first_panel; p < last_panel; ++p) {
        const Index rows = (std::min)(step, rows_ - row);
        const std::uint32_t* words = b_.words + (p * rows_ + row) * word_columns;
        if (unpacks_) {
          std::uint32_t* const to = unpacked_ + slot * word_block * word_columns;
          unpack_nibbles(words, rows, to);
          words = to;
        }
        for (Index g = first; g < last; ++g) {
          const Index m = group_begin(g), count = group_begin(g + 1) - m;
          float* const c = c_.row(m) + p * word_columns;
          prefetch_output(m, count, p, c);
          multiply({m, count, p, row, rows, row > 0 || add_}, words, ahead(g - first, last - first, p, row, words), c);
          if (row + rows == rows_) epilogue_(m, count, p * word_columns, c, c_.stride(0), b_.column_count(p));
        }
      }
      row += step;
    } while (row < rows_);
  }

  /// Rows [m, m + count) of A by rows [row, row + rows) of a panel.
  struct Piece {
    Index m, count, panel, row, rows;
    bool add;
  };

  /// Where a tile asks for what comes after this panel: the first of a block of rows take a line each.
  const std::uint32_t* ahead(Index group, Index groups, Index panel, Index row, const std::uint32_t* words) const {
    constexpr Index line = 16;
    const bool asks = groups >= word_columns / line && group < word_columns / line && panel + 1 < b_.panels();
    return asks ? b_.words + ((panel + 1) * rows_ + row) * word_columns + group * line : words;
  }

  void prefetch_output(Index m, Index count, Index panel, const float* c) const {
    for (Index i = 0; i < count; ++i)
      for (Index j = 0; j < b_.column_count(panel); j += 16) prefetch_to_write(c + i * c_.stride(0) + j);
    epilogue_.prefetch(m, count, panel * word_columns, b_.column_count(panel));
  }

  void multiply(const Piece& piece, const std::uint32_t* words, const std::uint32_t* ahead, float* c) const {
    const auto& [m, count, p, row, rows, add] = piece;
    const auto run = [&]<class Tile>(Tile, const auto& in) {
      any_word_tile<Tile>(piece.count, in, c, c_.stride(0), b_.column_count(piece.panel));
    };
    const auto floats = [&] {
      return WordTileInput<float>{left_.floats + piece.m * left_.stride + 2 * piece.row,
                                  left_.stride,
                                  words,
                                  piece.rows,
                                  piece.rows,
                                  piece.add,
                                  ahead};
    };
    switch (b_.format) {
      case Format::f16: return run(HalfTile(), floats());
      case Format::bf16:
        if constexpr (!has_brain_float_dot) return run(BrainFloatTile(), floats());
        else
          return run(BrainFloatDotTile(), WordTileInput<std::uint32_t>{left_.words + m * left_.stride + row,
                                                                       left_.stride, words, rows, rows, add, ahead});
      case Format::int4:
        if (!unpacks_) return run(Int4Tile(), whole(piece, words, ahead, 2));
        return run(UnpackedTile(), whole({m, count, p, row, 2 * rows, add}, words, ahead, 1));
      default: return run(Int8Tile(), whole(piece, words, ahead, 1));
    }
  }

  /// Where a tile of whole numbers reads: each row of words meets `per_row` words of A.
  WordTileInput<std::uint32_t> whole(const Piece& piece, const std::uint32_t* words, const std::uint32_t* ahead,
                                     Index per_row) const {
    const Index left = piece.row * (b_.format == Format::int4 ? 2 : 1), number = left / piece_,
                at = piece.m * left_.pieces + number;
    return {.a = left_.words + piece.m * left_.stride + left,
            .a_stride = left_.stride,
            .b = words,
            .rows = piece.rows,
            .piece = piece_ / per_row,
            .add = piece.add,
            .ahead = ahead,
            .a_scales = left_.scales + at,
            .a_offsets = left_.offsets + at,
            .a_pieces = left_.pieces,
            .b_scales = b_.scales + piece.panel * scales_ + (b_.group == 0 ? 0 : number * word_columns),
            .b_scale_stride = b_.group == 0 ? 0 : word_columns};
  }

  ConstView<float, 2> a_;
  PackedWords b_;
  View<float, 2> c_;
  bool add_;
  const Epilogue<float>& epilogue_;
  Index groups_, row_blocks_;    // of rows of A
  Index rows_, scales_, piece_;  // of b: rows of words and scales of a panel; words of A in a piece
  bool unpacks_;
  Index panels_per_task_;
  LeftRows left_;
  std::uint32_t* unpacked_ = nullptr;
};

}  // namespace detail

/// C (M, N) = [C +] A·B, then the epilogue.
inline void multiply_words(const Threads& threads, Arena& arena, ConstView<float, 2> a, const PackedWords& b,
                           View<float, 2> c, bool add, const Epilogue<float>& epilogue = {}) {
  const auto scratch = arena.scratch();
  detail::WordProduct(threads, arena, a, b, c, add, epilogue).run(threads);
}

}  // namespace eigenformer::kernel
