// Matrix products in register tiles. The right factor is repacked into panels, k-major and as wide as the tile, ahead
// or block by block where it is used; for few rows it is read where it lies. The left one is read in place or, where
// its k axis is strided, from a packed copy. Every element of the result is a sum over blocks of k = 0 … depth_block −
// 1, …, in that order, each one chain of fused multiply-adds over its k, whatever tile, edge or thread computes it:
// that is the bit guarantee.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "eigenformer/core/arena.hpp"
#include "eigenformer/core/eigen.hpp"
#include "eigenformer/core/gradient.hpp"
#include "eigenformer/core/threads.hpp"
#include "eigenformer/core/view.hpp"
#include "eigenformer/kernel/row.hpp"
#include "eigenformer/kernel/simd.hpp"

namespace eigenformer::inline EIGENFORMER_ABI::kernel {

/// rows × vectors accumulators, `vectors` registers of the right factor and one of the left fill the register file.
template <Real T>
struct Tile {
#if defined(__AVX512F__) || defined(__ARM_NEON)
  static constexpr int rows = 6, vectors = 4;  // 32 registers
#else
  static constexpr int rows = 4, vectors = 3;  // 16 registers
#endif
  static constexpr Index width = vectors * Vec<T>::lanes;
};

inline constexpr Index depth_block = 512;  // a panel's block stays in the second-level cache
inline constexpr Index row_block = 96;     // a multiple of both tile heights
inline constexpr Index panel_block = 4;    // panels that one task computes
template <class T>
inline constexpr Index cache_line = 64 / static_cast<Index>(sizeof(T));  // elements

/// The right factor B (K, N): panel p holds columns p·width … of all K rows, one row after the other, zero beyond N.
template <Real T>
struct Panels {
  const T* data = nullptr;
  Index depth = 0, width = 0;  // K, N

  Index count() const { return (width + Tile<T>::width - 1) / Tile<T>::width; }
  const T* at(Index panel, Index k) const { return data + (panel * depth + k) * Tile<T>::width; }
  static Index size(Index depth, Index width) {
    return (width + Tile<T>::width - 1) / Tile<T>::width * Tile<T>::width * depth;
  }
};

/// A right factor wᵀ for w (N, K) that is packed block by block, where and when it is needed; for few rows not at all.
template <Real T>
struct TransposedRight {
  ConstView<T, 2> w;
};

/// A right factor b (K, N) as it lies, packed likewise.
template <Real T>
struct PlainRight {
  ConstView<T, 2> b;
};

/// What is done to every piece of C that is finished, while it is in the cache: f(row, column, pointer, count) for each
/// of its rows, and before that, where f has it, f.prefetch(row, column, count). A reference to f, whose type is
/// forgotten: products are compiled once, not once for every end they have.
template <Real T>
class Epilogue {
 public:
  Epilogue() = default;  // nothing is done

  template <class F>
  requires std::is_invocable_v<const F&, Index, Index, T*, Index> Epilogue(const F& f) : f_(&f) {
    apply_ = [](const void* of, Index row, Index rows, Index column, T* out, Index stride, Index count) {
      for (Index i = 0; i < rows; ++i) (*static_cast<const F*>(of))(row + i, column, out + i * stride, count);
    };
    if constexpr (requires { f.prefetch(Index{}, Index{}, Index{}); })
      prefetch_ = [](const void* of, Index row, Index rows, Index column, Index count) {
        for (Index i = 0; i < rows; ++i) static_cast<const F*>(of)->prefetch(row + i, column, count);
      };
  }

  /// To rows [row, row + rows) of C, `count` columns from `column` on, which lie at `out`, `stride` apart.
  void operator()(Index row, Index rows, Index column, T* out, Index stride, Index count) const {
    if (apply_) apply_(f_, row, rows, column, out, stride, count);
  }
  void prefetch(Index row, Index rows, Index column, Index count) const {
    if (prefetch_) prefetch_(f_, row, rows, column, count);
  }

 private:
  const void* f_ = nullptr;
  void (*apply_)(const void* f, Index row, Index rows, Index column, T* out, Index stride, Index count) = nullptr;
  void (*prefetch_)(const void* f, Index row, Index rows, Index column, Index count) = nullptr;
};

/// The left factor A (M, K): element (m, k) at data[m·stride + k]; or `transposed`, at data[k·stride + m].
template <Real T>
struct Left {
  const T* data;
  Index rows, depth, stride;
  bool transposed = false;
};

namespace detail {

/// Tiles of nearly equal height cover [0, rows); the i-th begins here.
template <Real T>
struct RowGroups {
  static constexpr Index per_block = row_block / Tile<T>::rows;
  Index rows, count = (rows + Tile<T>::rows - 1) / Tile<T>::rows;
  Index begin(Index i) const { return static_cast<Index>(std::int64_t{rows} * i / count); }

  /// Blocks of up to row_block rows: how many, and where the i-th begins.
  Index blocks() const { return (count + per_block - 1) / per_block; }
  Index block_group(Index i) const { return (std::min)(i * per_block, count); }
  Index block_begin(Index i) const { return begin(block_group(i)); }
};

/// Where a tile reads: a(i, k) = a[i·row_stride + k·k_stride], row k of b at b + k·b_stride, in whole vectors.
template <Real T>
struct TileInput {
  Index depth;
  const T* a;
  Index row_stride, k_stride;
  const T* b;
  Index b_stride;
  const T* ahead =
      nullptr;  // what to bring into the second-level cache meanwhile, from here: `strip` elements for each k
  Index strip = 0;
};

/// c (Rows, Vectors·lanes) = [c +] a·b
template <class T, int Rows, int Vectors>
void tile(const TileInput<T>& in, T* c, Index c_stride, bool add) {
  using V = Vec<T>;
  const T *a = in.a, *b = in.b, *ahead = in.ahead ? in.ahead : in.a;
  const Index part = in.strip / 4;
  V sums[static_cast<std::size_t>(Rows * Vectors)];
  unroll<Rows * Vectors>([&](auto n) EIGENFORMER_INLINE_LAMBDA { sums[n] = V(T{0}); });
  for (Index k = in.depth; k > 0; --k, a += in.k_stride, b += in.b_stride, ahead += in.strip) {
    unroll<4>([&](auto i) EIGENFORMER_INLINE_LAMBDA { prefetch_far(ahead + i * part); });
    V right[static_cast<std::size_t>(Vectors)];
    unroll<Vectors>([&](auto j) EIGENFORMER_INLINE_LAMBDA {
      right[j] = V::load(b + j * V::lanes);
      right[j].keep();
    });
    unroll<Rows>([&](auto i) EIGENFORMER_INLINE_LAMBDA {
      const V left(a[i * in.row_stride]);
      unroll<Vectors>([&](auto j) EIGENFORMER_INLINE_LAMBDA {
        sums[i * Vectors + j] = fma(left, right[j], sums[i * Vectors + j]);
      });
    });
  }
  unroll<Rows * Vectors>([&](auto n) EIGENFORMER_INLINE_LAMBDA {
    T* const to = c + n / Vectors * c_stride + n % Vectors * V::lanes;
    (add ? V::load(to) + sums[n] : sums[n]).store(to);
  });
}

/// The tile of the right height and number of vectors for c (rows, width); no element beyond is touched.
template <class T, int Rows = Tile<T>::rows, int Vectors = Tile<T>::vectors>
void any_tile(Index rows, const TileInput<T>& in, T* c, Index c_stride, bool add, Index width) {
  if constexpr (Rows > 1)
    if (rows < Rows) return any_tile<T, Rows - 1, Vectors>(rows, in, c, c_stride, add, width);
  if constexpr (Vectors > 1)
    if (width <= (Vectors - 1) * Vec<T>::lanes)
      return any_tile<T, Rows, Vectors - 1>(rows, in, c, c_stride, add, width);
  if (width == Vectors * Vec<T>::lanes) return tile<T, Rows, Vectors>(in, c, c_stride, add);
  T buffer[static_cast<std::size_t>(Rows * Vectors * Vec<T>::lanes)] = {};
  for (Index i = 0; add && i < Rows; ++i) std::copy_n(c + i * c_stride, width, buffer + i * Vectors * Vec<T>::lanes);
  tile<T, Rows, Vectors>(in, buffer, Vectors * Vec<T>::lanes, add);
  for (Index i = 0; i < Rows; ++i) std::copy_n(buffer + i * Vectors * Vec<T>::lanes, width, c + i * c_stride);
}

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

/// One panel of B as it lies: `depth` rows of `count` ≤ Tile width elements; zero beyond.
template <class T>
void pack_panel(const T* b, Index b_stride, Index count, Index depth, T* to) {
  constexpr Index width = Tile<T>::width, lanes = Vec<T>::lanes;
  for (Index k = 0; k < depth; ++k, to += width) {
    if (count == width) {
      unroll<Tile<T>::vectors>(
          [&](auto v) EIGENFORMER_INLINE_LAMBDA { Vec<T>::load(b + k * b_stride + v * lanes).store(to + v * lanes); });
      continue;
    }
    std::memcpy(to, b + k * b_stride, static_cast<std::size_t>(count) * sizeof(T));
    std::fill_n(to + count, width - count, T{0});
  }
}

}  // namespace detail

/// Packs B = scale·wᵀ for w (N, K).
template <class T>
Panels<T> pack_panels_transposed(const Threads& threads, ConstView<T, 2> w, T* to, T scale = 1) {
  constexpr Index width = Tile<T>::width;
  const Panels<T> panels{to, w.extent(1), w.extent(0)};
  threads.parallel_for(panels.count(), row_grain(panels.depth * width), [&](Index begin, Index end) {
    for (Index p = begin; p < end; ++p)
      detail::pack_panel_transposed(w.row(p * width), w.stride(0), (std::min)(width, panels.width - p * width),
                                    panels.depth, scale, to + p * panels.depth * width);
  });
  return panels;
}

namespace detail {

/// What multiply() needs of a right factor: its size, and a pointer to rows [k, k + depth) of a panel, packed into `to`
/// if it is not yet.
template <class T>
struct Right {
  Index depth, width;
  bool packs;
  const Panels<T>* packed = nullptr;
  const TransposedRight<T>* transposed = nullptr;
  const PlainRight<T>* plain = nullptr;

  Right(const Panels<T>& b) : depth(b.depth), width(b.width), packs(false), packed(&b) {}
  Right(const TransposedRight<T>& b) : depth(b.w.extent(1)), width(b.w.extent(0)), packs(true), transposed(&b) {}
  Right(const PlainRight<T>& b) : depth(b.b.extent(0)), width(b.b.extent(1)), packs(true), plain(&b) {}

  Index panels() const { return (width + Tile<T>::width - 1) / Tile<T>::width; }
  Index column_count(Index panel) const { return (std::min)(Tile<T>::width, width - panel * Tile<T>::width); }
  /// The packed block after this one, in the order of multiply(); null if it is not packed or there is none.
  const T* next(Index panel, Index k, Index first, Index last) const {
    if (!packed) return nullptr;
    if (panel + 1 < last) return packed->at(panel + 1, k);
    return k + depth_block < depth ? packed->at(first, k + depth_block)
           : last < panels()       ? packed->at(last, 0)
                                   : nullptr;
  }
  const T* block(Index panel, Index k, Index count, T* to) const {
    const Index first = panel * Tile<T>::width;
    if (packed) return packed->at(panel, k);
    if (transposed)
      pack_panel_transposed(transposed->w.row(first) + k, transposed->w.stride(0), column_count(panel), count, T{1},
                            to);
    else pack_panel(plain->b.row(k) + first, plain->b.stride(0), column_count(panel), count, to);
    return to;
  }
};

/// Packs columns [k, k + depth) of the transpose's rows [first, first + count) k-major, row_block apart.
template <class T>
void pack_left(const Left<T>& a, Index first, Index count, Index k, Index depth, T* to) {
  for (Index i = 0; i < depth; ++i) {
    const T* const from = a.data + (k + i) * a.stride + first;
    for_vec_packs<T>(
        count, [&](Index j, auto n) EIGENFORMER_INLINE_LAMBDA { store(to + i * row_block + j, load(from + j, n), n); });
  }
}

/// Asks for a share of what that will read.
template <class T>
void prefetch_left(const Left<T>& a, Index first, Index count, Index k, Index depth, Index share, Index shares) {
  for (Index i = depth * share / shares; i < depth * (share + 1) / shares; ++i)
    for (Index j = 0; j < count; j += cache_line<T>) prefetch_far(a.data + (k + i) * a.stride + first + j);
}

/// `count` ≤ width rows of w, `depth` long, that a product reads where they lie, a cache line of each at a time.
template <class T>
struct Strip {
  static constexpr Index width = cache_line<T>, ahead = 4 * width;
  static constexpr int vectors = static_cast<int>(width / Vec<T>::lanes);
  static constexpr int tallest = std::clamp(Tile<T>::rows * Tile<T>::vectors / vectors, 1, 16);  // tile
  const T* w;
  Index stride, count, depth;
  Index left, turn;  // elements to the end of the rows, and from there to the next strip

  /// Columns [k, k + some) become rows at `to`, `width` apart; those that come are asked for.
  void take(Index k, Index some, T* to) const {
    const Index next = k + ahead < left ? k + ahead : k + ahead + turn;
    for (Index i = 0; i < count; ++i) prefetch(w + i * stride + next);
    if (count < width || some < width) return pack_panel_transposed(w + k, stride, count, some, T{1}, to, width);
    constexpr Index lanes = Vec<T>::lanes;
    for (Index i = 0; i < width; i += lanes)
      for (Index j = 0; j < width; j += lanes) {
        Vec<T> block[static_cast<std::size_t>(lanes)];
        load_columns(w + i * stride + k + j, stride, block);
        unroll<lanes>([&](auto n) EIGENFORMER_INLINE_LAMBDA { block[n].store(to + (j + n) * width + i); });
      }
  }
};

/// c (Rows, strip width) = [c +] a·wᵀ
template <class T, int Rows>
void strip_tile(const Strip<T>& w, const T* a, Index a_stride, T* c, Index c_stride, bool add) {
  using V = Vec<T>;
  constexpr int vectors = Strip<T>::vectors;
  T column_count[static_cast<std::size_t>(Strip<T>::width * Strip<T>::width)];
  V sums[static_cast<std::size_t>(Rows * vectors)];
  unroll<Rows * vectors>([&](auto n) EIGENFORMER_INLINE_LAMBDA { sums[n] = V(T{0}); });
  for (Index k = 0; k < w.depth; k += Strip<T>::width) {
    const Index some = (std::min)(Strip<T>::width, w.depth - k);
    w.take(k, some, column_count);
    for (Index i = 0; i < some; ++i) {
      V right[static_cast<std::size_t>(vectors)];
      unroll<vectors>([&](auto v) EIGENFORMER_INLINE_LAMBDA {
        right[v] = V::load(column_count + i * Strip<T>::width + v * V::lanes);
      });
      unroll<Rows>([&](auto r) EIGENFORMER_INLINE_LAMBDA {
        const V left(a[r * a_stride + k + i]);
        unroll<vectors>([&](auto v) EIGENFORMER_INLINE_LAMBDA {
          sums[r * vectors + v] = fma(left, right[v], sums[r * vectors + v]);
        });
      });
    }
  }
  for (Index r = 0; r < Rows; ++r)
    for_vectors<T>(w.count, [&](Index j, auto n) {
      T* const to = c + r * c_stride + j;
      const V total = sums[r * vectors + j / V::lanes];
      store(to, add ? load(to, n) + total : total, n);
    });
}

/// The tile of the right height.
template <class T, int Rows = Strip<T>::tallest>
void any_strip_tile(Index rows, const Strip<T>& w, const T* a, Index a_stride, T* c, Index c_stride, bool add) {
  if constexpr (Rows > 1)
    if (rows < Rows) return any_strip_tile<T, Rows - 1>(rows, w, a, a_stride, c, c_stride, add);
  strip_tile<T, Rows>(w, a, a_stride, c, c_stride, add);
}

/// C (M, N) = [C +] A·wᵀ for few rows.
template <class T>
void multiply_strips(const Threads& threads, const Left<T>& a, ConstView<T, 2> w, View<T, 2> c, bool add,
                     const Epilogue<T>& epilogue) {
  constexpr Index width = Strip<T>::width, tallest = Strip<T>::tallest;
  const Index tiles = (a.rows + tallest - 1) / tallest, work = (std::max)(a.rows * width * a.depth, Index{1});
  threads.parallel_for((w.extent(0) + width - 1) / width, 500000 / work, [&](Index begin, Index end) {
    for (Index column = begin * width; column < (std::min)(end * width, w.extent(0)); column += width) {
      const Index count = (std::min)(width, w.extent(0) - column);
      Index k = 0;
      do {
        const Index left = a.depth - k;
        const Strip<T> strip{
            w.row(column) + k, w.stride(0), count, (std::min)(depth_block, left), left, width * w.stride(0) - a.depth};
        for (Index i = 0; i < tiles; ++i) {
          const Index row = a.rows * i / tiles, rows = a.rows * (i + 1) / tiles - row;
          any_strip_tile<T>(rows, strip, a.data + row * a.stride + k, a.stride, c.row(row) + column, c.stride(0),
                            add || k > 0);
        }
        k += strip.depth;
      } while (k < a.depth);
      epilogue(0, a.rows, column, c.row(0) + column, c.stride(0), count);
    }
  });
}

}  // namespace detail

/// Up to so many rows, a right factor wᵀ is read where it lies: to turn it to columns takes no longer than to read it
/// from memory.
inline constexpr Index few_rows = 16;

/// C (M, N) = [C +] A·B, then the epilogue. B is Panels, TransposedRight or PlainRight.
template <class T>
void multiply(const Threads& threads, Arena& arena, const Left<T>& a, const detail::Right<T>& right, View<T, 2> c,
              bool add, const Epilogue<T>& epilogue = {}) {
  if (right.transposed && a.rows <= few_rows && !a.transposed)
    return detail::multiply_strips(threads, a, right.transposed->w, c, add, epilogue);
  constexpr Index width = Tile<T>::width;
  const detail::RowGroups<T> groups{a.rows};
  // A task that packs panels does so for many rows.
  const Index row_tasks = right.packs ? (groups.blocks() + 7) / 8 : groups.blocks(),
              panel_tasks = (right.panels() + panel_block - 1) / panel_block;
  const std::int64_t work =
      std::int64_t{a.rows} / (std::max)(row_tasks, Index{1}) * panel_block * width * a.depth;  // of a task
  const Index row_stride = a.transposed ? 1 : a.stride;
  constexpr Index right_size = panel_block * depth_block * width, left_size = row_block * depth_block;
  const auto scratch = arena.scratch();
  T* const packed_right = right.packs ? arena.allocate<T>(threads.count() * right_size) : nullptr;
  // A transposed left factor that many tasks need is packed for all of them.
  const bool pack_first = a.transposed && panel_tasks > 2, pack_within = a.transposed && !pack_first;
  T* const packed_left = pack_within  ? arena.allocate<T>(threads.count() * left_size)
                         : pack_first ? arena.allocate<T>(groups.blocks() * row_block * a.depth)
                                      : nullptr;
  if (pack_first)
    threads.parallel_for(groups.blocks(), row_grain(row_block * a.depth), [&](Index begin, Index end) {
      for (Index block = begin; block < end; ++block)
        detail::pack_left(a, groups.block_begin(block), groups.block_begin(block + 1) - groups.block_begin(block), 0,
                          a.depth, packed_left + block * row_block * a.depth);
    });
  threads.parallel_for(
      row_tasks * panel_tasks, static_cast<Index>(500000 / (std::max)(work, std::int64_t{1})),
      [&](Index begin, Index end, int slot) {
        for (Index task = begin; task < end; ++task) {
          const Index first_block = groups.blocks() * (task % row_tasks) / row_tasks,
                      last_block = groups.blocks() * (task % row_tasks + 1) / row_tasks;
          const Index first_panel = task / row_tasks * panel_block,
                      last_panel = (std::min)(first_panel + panel_block, right.panels());
          Index k = 0;
          do {
            const Index depth = (std::min)(depth_block, a.depth - k);
            const bool done = k + depth == a.depth;
            const T* panels[static_cast<std::size_t>(panel_block)];
            for (Index p = first_panel; p < last_panel; ++p)
              panels[p - first_panel] = right.block(
                  p, k, depth,
                  right.packs ? packed_right + slot * right_size + (p - first_panel) * depth_block * width : nullptr);
            for (Index block = first_block; block < last_block; ++block) {
              const Index first_row = groups.block_begin(block), last_row = groups.block_begin(block + 1);
              const T* left = pack_first    ? packed_left + (block * a.depth + k) * row_block
                              : pack_within ? packed_left + slot * left_size
                                            : a.data + first_row * a.stride + k;
              if (pack_within)
                detail::pack_left(a, first_row, last_row - first_row, k, depth, packed_left + slot * left_size);
              const Index first_group = groups.block_group(block), last_group = groups.block_group(block + 1);
              const Index calls = (last_group - first_group) * (last_panel - first_panel);
              for (Index p = first_panel; p < last_panel; ++p) {
                const T* const next = right.next(p, k, first_panel, last_panel);
                const Index sharers = last_group - first_group,
                            strip = (std::max)((width + sharers - 1) / sharers, cache_line<T>);  // what a call asks for
                for (Index g = first_group; g < last_group; ++g) {
                  const Index row = groups.begin(g), rows = groups.begin(g + 1) - row,
                              column_count = right.column_count(p), call = g - first_group;
                  const bool asks = next && call * strip < width;
                  T* const out = c.row(row) + p * width;
                  for (Index i = 0; i < rows; ++i)
                    for (Index j = 0; j < column_count; j += Vec<T>::lanes)
                      prefetch_to_write(out + i * c.stride(0) + j);
                  epilogue.prefetch(row, rows, p * width, column_count);
                  if (pack_within && block + 1 < last_block)
                    detail::prefetch_left(a, last_row, groups.block_begin(block + 2) - last_row, k, depth,
                                          (p - first_panel) * (last_group - first_group) + call, calls);
                  detail::any_tile<T>(
                      rows,
                      {depth, left + (row - first_row) * row_stride, row_stride, a.transposed ? row_block : 1,
                       panels[p - first_panel], width, asks ? next + call * depth * strip : nullptr, asks ? strip : 0},
                      out, c.stride(0), add || k > 0, column_count);
                  if (done) epilogue(row, rows, p * width, out, c.stride(0), column_count);
                }
              }
            }
            k += depth;
          } while (k < a.depth);
        }
      });
}

/// Adds bias (N).
template <Real T>
struct AddBias {
  const T* bias;
  void operator()(Index, Index column, T* out, Index count) const {
    for_vectors<T>(count, [&](Index i, auto n) { store(out + i, load(out + i, n) + load(bias + column + i, n), n); });
  }
};

/// y (M, Out) = x (M, In) · weight (Out, In)ᵀ, then the epilogue. The weight is packed here unless `panels` are that
/// already.
template <class T>
void linear_forward_then(const Threads& threads, Arena& arena, ConstView<T, 2> x, ConstView<T, 2> weight,
                         Panels<T> panels, View<T, 2> y, const Epilogue<T>& epilogue) {
  const Left<T> left{x.data(), x.rows(), x.width(), x.stride(0)};
  if (panels.data) multiply<T>(threads, arena, left, panels, y, false, epilogue);
  else multiply<T>(threads, arena, left, TransposedRight<T>{weight}, y, false, epilogue);
}

/// y (M, Out) = x (M, In) · weight (Out, In)ᵀ + bias (Out), which may be null.
template <class T>
void linear_forward(const Threads& threads, Arena& arena, ConstView<T, 2> x, ConstView<T, 2> weight,
                    ConstView<T, 1> bias, View<T, 2> y, const Panels<T>& panels = {}) {
  if (bias) linear_forward_then<T>(threads, arena, x, weight, panels, y, AddBias<T>{bias.data()});
  else linear_forward_then<T>(threads, arena, x, weight, panels, y, {});
}

/// dx (M, In) ← dy (M, Out) · weight (Out, In), then the epilogue.
template <class T>
void linear_backward_input(const Threads& threads, Arena& arena, ConstView<T, 2> dy, ConstView<T, 2> weight,
                           Gradient<T, 2> dx, const Epilogue<T>& epilogue = {}) {
  if (dx)
    multiply<T>(threads, arena, {dy.data(), dy.rows(), dy.width(), dy.stride(0)}, PlainRight<T>{weight}, dx.view,
                dx.add, epilogue);
}

/// dweight (Out, In) ← dyᵀ · x; dbias (Out) ← Σ over rows of dy
template <class T>
void linear_backward_weight(const Threads& threads, Arena& arena, ConstView<T, 2> dy, ConstView<T, 2> x,
                            Gradient<T, 2> dweight, Gradient<T, 1> dbias) {
  if (dweight)
    multiply<T>(threads, arena, {dy.data(), dy.width(), dy.rows(), dy.stride(0), true}, PlainRight<T>{x}, dweight.view,
                dweight.add);
  if (!dbias) return;
  threads.parallel_for(dy.width(), 512, [&](Index begin, Index end) {
    auto sums = row_map(dbias.view.data() + begin, end - begin);
    if (!dbias.add) sums.setZero();
    for (Index i = 0; i < dy.rows(); ++i) sums += row_map(dy.row(i) + begin, end - begin);
  });
}

}  // namespace eigenformer::kernel
