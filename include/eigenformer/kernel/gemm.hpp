// Matrix products in register tiles. The right operand is packed into panels, ahead or block by block where it is used;
// for few rows it is read where it lies. The left one is read in place or, where its k axis is strided, from a packed
// copy. Every element of the result is a sum over blocks of k = 0 … depth_block − 1, …, in that order, each one chain
// of fused multiply-adds over its k, whatever tile, edge or thread computes it: that is the bit guarantee.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "eigenformer/core/arena.hpp"
#include "eigenformer/core/eigen.hpp"
#include "eigenformer/core/gradient.hpp"
#include "eigenformer/core/threads.hpp"
#include "eigenformer/core/view.hpp"
#include "eigenformer/kernel/epilogue.hpp"
#include "eigenformer/kernel/operand.hpp"
#include "eigenformer/kernel/row.hpp"
#include "eigenformer/kernel/simd.hpp"

namespace eigenformer::inline EIGENFORMER_ABI::kernel {

inline constexpr Index depth_block = 512;  // a panel's block stays in the second-level cache
inline constexpr Index row_block = 96;     // a multiple of both tile heights
inline constexpr Index panel_block = 4;    // panels that one task computes
/// Up to so many rows, a right operand wᵀ is read where it lies: to turn it to columns takes no longer than to read it
/// from memory.
inline constexpr Index few_rows = 16;
template <class T>
inline constexpr Index cache_line = 64 / static_cast<Index>(sizeof(T));  // elements

/// The left operand A (M, K): element (m, k) at data[m·stride + k]; or `transposed`, at data[k·stride + m].
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

/// Lines that a tile asks for at each k: where it has few multiplications, each one counts.
inline constexpr int prefetches = Tile<float>::vectors > 3 ? 4 : 1;

/// c (Rows, Vectors·lanes) = [c +] a·b
template <class T, int Rows, int Vectors>
void tile(const TileInput<T>& in, T* c, Index c_stride, bool add) {
  using V = Vec<T>;
  const T *a = in.a, *b = in.b, *ahead = in.ahead ? in.ahead : in.a;
  const Index part = in.strip / prefetches;
  V sums[static_cast<std::size_t>(Rows * Vectors)];
  unroll<Rows * Vectors>([&](auto n) EIGENFORMER_INLINE_LAMBDA { sums[n] = V(T{0}); });
  for (Index k = in.depth; k > 0; --k, a += in.k_stride, b += in.b_stride, ahead += in.strip) {
    unroll<prefetches>([&](auto i) EIGENFORMER_INLINE_LAMBDA { prefetch_far(ahead + i * part); });
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
  Index left, gap;  // elements to the end of the rows, and from there to the next strip

  /// Columns [k, k + some) become rows at `to`, `width` apart; those that come are asked for.
  void take(Index k, Index some, T* to) const {
    const Index next = k + ahead < left ? k + ahead : k + ahead + gap;
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
  T block[static_cast<std::size_t>(Strip<T>::width * Strip<T>::width)];
  V sums[static_cast<std::size_t>(Rows * vectors)];
  unroll<Rows * vectors>([&](auto n) EIGENFORMER_INLINE_LAMBDA { sums[n] = V(T{0}); });
  for (Index k = 0; k < w.depth; k += Strip<T>::width) {
    const Index some = (std::min)(Strip<T>::width, w.depth - k);
    w.take(k, some, block);
    for (Index i = 0; i < some; ++i) {
      V right[static_cast<std::size_t>(vectors)];
      unroll<vectors>(
          [&](auto v) EIGENFORMER_INLINE_LAMBDA { right[v] = V::load(block + i * Strip<T>::width + v * V::lanes); });
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

/// C (M, N) = [C +] A·B in tasks: some blocks of rows by up to panel_block panels, through k block by block.
template <class T>
class Product {
 public:
  Product(const Threads& threads, Arena& arena, const Left<T>& a, const Operand<T>& b, View<T, 2> c, bool add,
          const Epilogue<T>& epilogue)
      : a_(a), b_(b), c_(c), add_(add), epilogue_(epilogue), groups_{a.rows},
        // A task that packs panels does so for many rows.
        row_tasks_(b.is_packed() ? groups_.blocks() : (groups_.blocks() + 7) / 8),
        panel_tasks_((b.panels() + panel_block - 1) / panel_block) {
    if (!b.is_packed()) packed_right_ = arena.allocate<T>(threads.count() * right_size);
    if (!a.transposed) return;
    // A transposed left operand that many tasks need is packed for all of them.
    left_ = panel_tasks_ > 2 ? LeftFrom::packed_ahead : LeftFrom::packed_by_task;
    packed_left_ = arena.allocate<T>(left_ == LeftFrom::packed_ahead ? groups_.blocks() * row_block * a.depth
                                                                     : threads.count() * left_size);
  }

  void run(const Threads& threads) const {
    if (left_ == LeftFrom::packed_ahead) pack_left_ahead(threads);
    // Multiplications of a task.
    const std::int64_t work = std::int64_t{a_.rows} / (std::max)(row_tasks_, Index{1}) * panel_block * width * a_.depth;
    threads.parallel_for(row_tasks_ * panel_tasks_, static_cast<Index>(500000 / (std::max)(work, std::int64_t{1})),
                         [&](Index begin, Index end, int slot) {
                           for (Index task = begin; task < end; ++task) run_task(task, slot);
                         });
  }

 private:
  static constexpr Index width = Tile<T>::width, right_size = panel_block * depth_block * width,
                         left_size = row_block * depth_block;  // elements that a thread packs at a time
  enum class LeftFrom { where_it_lies, packed_ahead, packed_by_task };
  using Block = typename Operand<T>::Block;

  /// Blocks of rows and panels, and where the thread packs.
  struct Task {
    Index first_block, last_block, first_panel, last_panel;
    T *packed_right, *packed_left;
  };
  /// Part of k.
  struct Depth {
    Index begin, count;
  };
  /// a(i, k) = data[i·row_stride + k·k_stride] of a block of rows and a part of k.
  struct LeftBlock {
    const T* data;
    Index row_stride, k_stride;
  };

  void pack_left_ahead(const Threads& threads) const {
    threads.parallel_for(groups_.blocks(), row_grain(row_block * a_.depth), [&](Index begin, Index end) {
      for (Index block = begin; block < end; ++block)
        pack_left(a_, groups_.block_begin(block), block_rows(block), 0, a_.depth,
                  packed_left_ + block * row_block * a_.depth);
    });
  }

  void run_task(Index index, int slot) const {
    const Index row_task = index % row_tasks_, first_panel = index / row_tasks_ * panel_block;
    const Task task{groups_.blocks() * row_task / row_tasks_,
                    groups_.blocks() * (row_task + 1) / row_tasks_,
                    first_panel,
                    (std::min)(first_panel + panel_block, b_.panels()),
                    packed_right_ ? packed_right_ + slot * right_size : nullptr,
                    left_ == LeftFrom::packed_by_task ? packed_left_ + slot * left_size : nullptr};
    Index k = 0;
    do {
      const Index depth = (std::min)(depth_block, a_.depth - k);
      multiply_depth(task, {k, depth});
      k += depth;
    } while (k < a_.depth);
  }

  void multiply_depth(const Task& task, Depth k) const {
    Block panels[static_cast<std::size_t>(panel_block)];
    for (Index p = task.first_panel; p < task.last_panel; ++p) {
      const Index i = p - task.first_panel;
      panels[i] =
          b_.block(p, k.begin, k.count, task.packed_right ? task.packed_right + i * depth_block * width : nullptr);
    }
    for (Index block = task.first_block; block < task.last_block; ++block) multiply_rows(task, panels, block, k);
  }

  /// The tiles of a block of rows, panel by panel. Each asks for a share of what is read next.
  void multiply_rows(const Task& task, const Block* panels, Index block, Depth k) const {
    const Index first_group = groups_.block_group(block), groups = groups_.block_group(block + 1) - first_group,
                strip = (std::max)((width + groups - 1) / groups, cache_line<T>);
    const LeftBlock left = left_block(task, block, k);
    for (Index p = task.first_panel; p < task.last_panel; ++p) {
      const Block& right = panels[p - task.first_panel];
      const T* const next = next_block(task, p, k);
      for (Index g = 0; g < groups; ++g) {
        const Index row = groups_.begin(first_group + g), rows = groups_.begin(first_group + g + 1) - row;
        const bool asks = next && g * strip < width;
        prefetch_output(row, rows, p);
        prefetch_next_left(task, block, k, (p - task.first_panel) * groups + g,
                           groups * (task.last_panel - task.first_panel));
        any_tile<T>(
            rows,
            {k.count, left.data + (row - groups_.block_begin(block)) * left.row_stride, left.row_stride, left.k_stride,
             right.data, right.stride, asks ? next + g * k.count * strip : nullptr, asks ? strip : 0},
            c_.row(row) + p * width, c_.stride(0), add_ || k.begin > 0, b_.column_count(p));
        if (k.begin + k.count == a_.depth)
          epilogue_(row, rows, p * width, c_.row(row) + p * width, c_.stride(0), b_.column_count(p));
      }
    }
  }

  LeftBlock left_block(const Task& task, Index block, Depth k) const {
    switch (left_) {
      case LeftFrom::packed_ahead: return {packed_left_ + (block * a_.depth + k.begin) * row_block, 1, row_block};
      case LeftFrom::packed_by_task:
        pack_left(a_, groups_.block_begin(block), block_rows(block), k.begin, k.count, task.packed_left);
        return {task.packed_left, 1, row_block};
      default: return {a_.data + groups_.block_begin(block) * a_.stride + k.begin, a_.stride, 1};
    }
  }

  /// The packed block that is read after this one; null if it is not packed or there is none.
  const T* next_block(const Task& task, Index panel, Depth k) const {
    if (!b_.is_packed()) return nullptr;
    const Index next_k = k.begin + depth_block;
    if (panel + 1 < task.last_panel) return b_.block(panel + 1, k.begin, 0, nullptr).data;
    if (next_k < b_.depth) return b_.block(task.first_panel, next_k, 0, nullptr).data;
    return task.last_panel < b_.panels() ? b_.block(task.last_panel, 0, 0, nullptr).data : nullptr;
  }

  void prefetch_output(Index row, Index rows, Index panel) const {
    for (Index i = 0; i < rows; ++i)
      for (Index j = 0; j < b_.column_count(panel); j += Vec<T>::lanes)
        prefetch_to_write(c_.row(row + i) + panel * width + j);
    epilogue_.prefetch(row, rows, panel * width, b_.column_count(panel));
  }

  /// A share of what the next block of rows packs.
  void prefetch_next_left(const Task& task, Index block, Depth k, Index share, Index shares) const {
    if (left_ == LeftFrom::packed_by_task && block + 1 < task.last_block)
      prefetch_left(a_, groups_.block_begin(block + 1), block_rows(block + 1), k.begin, k.count, share, shares);
  }

  Index block_rows(Index block) const { return groups_.block_begin(block + 1) - groups_.block_begin(block); }

  const Left<T>& a_;
  const Operand<T>& b_;
  View<T, 2> c_;
  bool add_;
  const Epilogue<T>& epilogue_;
  RowGroups<T> groups_;
  Index row_tasks_, panel_tasks_;
  LeftFrom left_ = LeftFrom::where_it_lies;
  T *packed_right_ = nullptr, *packed_left_ = nullptr;
};

}  // namespace detail

/// C (M, N) = [C +] A·B, then the epilogue.
template <class T>
void multiply(const Threads& threads, Arena& arena, const Left<T>& a, const Operand<T>& b, View<T, 2> c, bool add,
              const Epilogue<T>& epilogue = {}) {
  if constexpr (std::is_same_v<T, float>)
    if (b.words.words)
      return b.words.multiply(threads, arena, {a.data, {a.rows, a.depth}, {a.stride, 1}}, b.words, c, add, epilogue);
  if (!b.is_packed() && b.by_column && a.rows <= few_rows && !a.transposed)
    return detail::multiply_strips(threads, a, b.values, c, add, epilogue);
  const auto scratch = arena.scratch();
  detail::Product<T>(threads, arena, a, b, c, add, epilogue).run(threads);
}

/// Adds bias (N).
template <Real T>
struct AddBias {
  const T* bias;
  void operator()(Index, Index column, T* out, Index count) const {
    for_vectors<T>(count, [&](Index i, auto n) { store(out + i, load(out + i, n) + load(bias + column + i, n), n); });
  }
};

/// y (M, Out) = x (M, In) · w (In, Out), then the epilogue.
template <class T>
void linear_forward_then(const Threads& threads, Arena& arena, ConstView<T, 2> x, const Operand<T>& w, View<T, 2> y,
                         const Epilogue<T>& epilogue) {
  multiply<T>(threads, arena, {x.data(), x.rows(), x.width(), x.stride(0)}, w, y, false, epilogue);
}

/// y (M, Out) = x (M, In) · w (In, Out) + bias (Out), which may be null.
template <class T>
void linear_forward(const Threads& threads, Arena& arena, ConstView<T, 2> x, const Operand<T>& w, ConstView<T, 1> bias,
                    View<T, 2> y) {
  if (bias) linear_forward_then<T>(threads, arena, x, w, y, AddBias<T>{bias.data()});
  else linear_forward_then<T>(threads, arena, x, w, y, {});
}

/// dx (M, In) ← dy (M, Out) · wᵀ for w (In, Out), then the epilogue: by the values of w or, if these are not kept, by
/// the numbers of its packed copy.
template <class T>
void linear_backward_input(const Threads& threads, Arena& arena, ConstView<T, 2> dy, const Operand<T>& w,
                           Gradient<T, 2> dx, const Epilogue<T>& epilogue = {}) {
  if (!dx) return;
  const auto by = [&](Index first, Index count, ConstView<T, 2> rows, bool add, const Epilogue<T>& then) {
    multiply<T>(threads, arena, {dy.data() + first, dy.rows(), count, dy.stride(0)}, Operand<T>::rows(rows), dx.view,
                add, then);
  };
  if (w.values) return by(0, w.width, w.values, dx.add, epilogue);
  const auto scratch = arena.scratch();
  const auto rows = arena.allocate<T>(Shape{(std::min)(depth_block, w.width), w.depth});
  Index first = 0;
  do {  // as many outputs as a product adds up at a time, so that the sums are those by values
    const Index count = (std::min)(depth_block, w.width - first);
    threads.parallel_for(count, row_grain(w.depth), [&](Index begin, Index end) {
      for (Index n = begin; n < end; ++n) w.column(first + n, rows.row(n));
    });
    by(first, count, rows.slice(0, 0, count), dx.add || first > 0, first + count == w.width ? epilogue : Epilogue<T>());
    first += count;
  } while (first < w.width);
}

/// Likewise for weight (Out, In).
template <class T>
void linear_backward_input(const Threads& threads, Arena& arena, ConstView<T, 2> dy, ConstView<T, 2> weight,
                           Gradient<T, 2> dx, const Epilogue<T>& epilogue = {}) {
  linear_backward_input(threads, arena, dy, Operand<T>::transposed(weight), dx, epilogue);
}

/// dweight (Out, In) ← dyᵀ · x; dbias (Out) ← Σ over rows of dy
template <class T>
void linear_backward_weight(const Threads& threads, Arena& arena, ConstView<T, 2> dy, ConstView<T, 2> x,
                            Gradient<T, 2> dweight, Gradient<T, 1> dbias) {
  if (dweight)
    multiply<T>(threads, arena, {dy.data(), dy.width(), dy.rows(), dy.stride(0), true}, Operand<T>::rows(x),
                dweight.view, dweight.add);
  if (!dbias) return;
  threads.parallel_for(dy.width(), 512, [&](Index begin, Index end) {
    auto sums = row_map(dbias.view.data() + begin, end - begin);
    if (!dbias.add) sums.setZero();
    for (Index i = 0; i < dy.rows(); ++i) sums += row_map(dy.row(i) + begin, end - begin);
  });
}

}  // namespace eigenformer::kernel
