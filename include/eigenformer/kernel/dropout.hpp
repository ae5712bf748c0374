// Dropout (Srivastava et al. 2014): an element survives with probability 1 − p and is then multiplied by 1/(1 − p).
// Whether it survives is a function of (seed, step, site, row, column), so the backward pass recomputes the mask.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "eigenformer/core/gradient.hpp"
#include "eigenformer/core/random.hpp"
#include "eigenformer/core/threads.hpp"
#include "eigenformer/core/view.hpp"
#include "eigenformer/kernel/row.hpp"
#include "eigenformer/kernel/simd.hpp"

namespace eigenformer::inline EIGENFORMER_ABI::kernel {

/// x·factor, and 0 where the factor is 0 whatever x is.
template <class V>
EIGENFORMER_INLINE V surviving(V x, V factor) {
  return where_less(V(typename V::Scalar{0}), factor, x * factor);
}

/// One use of dropout. Probabilities are rounded to multiples of 2⁻³². Two elements share a random word, of which one
/// reads the halves swapped: the upper half of what it reads decides, but for one word in 2¹⁶.
struct Dropout {
  static constexpr Index chunk = 128;  // columns whose bits are made together: 16 Philox blocks side by side

  RandomSite site;
  double probability = 0;

  explicit operator bool() const { return probability > 0; }

  /// The factors, 0 or 1/(1 − p), of columns [number·chunk, (number + 1)·chunk) of a row. Columns 32·w + lane and
  /// 32·w + 16 + lane of them take word w of the Philox block number·16 + lane, the former with its halves swapped.
  template <class T>
  void factors(Index row, Index number, T* to) const {
    const auto threshold = static_cast<std::uint64_t>(std::llround(probability * 0x1p32));  // 2³²: none survives
    const T scale = threshold >> 32 ? T{0} : static_cast<T>(1 / (1 - probability));
    const PhiloxBlock first = site.counter(row, number * Words::count);
    std::uint32_t blocks[Words::count];
    for (int lane = 0; lane < Words::count; ++lane) blocks[lane] = first[0] + static_cast<std::uint32_t>(lane);
    Words counter[4] = {Words::load(blocks), Words::all(first[1]), Words::all(first[2]), Words::all(first[3])};
    auto key0 = static_cast<std::uint32_t>(site.seed), key1 = static_cast<std::uint32_t>(site.seed >> 32);
    for (int round = 0; round < philox_rounds; ++round, key0 += philox_step0, key1 += philox_step1) {
      Words low[2], high[2];
      multiply_wide(counter[0], philox_factor0, low[0], high[0]);
      multiply_wide(counter[2], philox_factor1, low[1], high[1]);
      counter[0] = high[1] ^ counter[1] ^ Words::all(key0);
      counter[1] = low[1];
      counter[2] = high[0] ^ counter[3] ^ Words::all(key1);
      counter[3] = low[0];
    }
    const auto put = [&](Words bits, T* at) {
      std::uint32_t kept[Words::count];
      where_not_less(bits, static_cast<std::uint32_t>(threshold),
                     std::bit_cast<std::uint32_t>(static_cast<float>(scale)))
          .store(kept);
      for (int lane = 0; lane < Words::count; ++lane)
        if constexpr (std::is_same_v<T, float>) at[lane] = std::bit_cast<float>(kept[lane]);
        else at[lane] = kept[lane] == 0 ? T{0} : scale;
    };
    for (int w = 0; w < 4; ++w) {
      put(swap_halves(counter[w]), to + 32 * w);
      put(counter[w], to + 32 * w + 16);
    }
  }

  /// The factors of columns first, …, last − 1 of a row. Memory has room for the whole chunks that these lie in.
  template <class T>
  const T* window(Index row, Index first, Index last, T* memory) const {
    const Index start = first / chunk * chunk;
    for (Index column = start; column < last; column += chunk) factors(row, column / chunk, memory + (column - start));
    return memory + (first - start);
  }

  /// Sets kept[j] to false where column first + j of a row is dropped.
  void drop(Index row, Index first, Index count, bool* kept) const {
    float some[static_cast<std::size_t>(chunk)];
    for (Index j = 0; j < count; ++j) {
      const Index at = (first + j) % chunk;
      if (j == 0 || at == 0) factors(row, (first + j) / chunk, some);
      kept[j] = kept[j] && some[at] != 0;
    }
  }

  /// f(j, n, factors) for the vectors of columns [0, width) of a row; first[j] is the factor of column j.
  template <class T, class F>
  void for_row(Index row, Index width, F&& f) const {
    T some[static_cast<std::size_t>(chunk)];
    for (Index begin = 0; begin < width; begin += chunk) {
      factors(row, begin / chunk, some);
      for_vectors<T>((std::min)(chunk, width - begin), [&](Index j, auto n) { f(begin + j, n, load(some + j, n)); });
    }
  }
};

/// y = residual + dropout(x); the residual may be null, and so may the dropout. All (R, D).
template <class T>
void dropout_forward(const Threads& threads, ConstView<T, 2> x, ConstView<T, 2> residual, const Dropout& dropout,
                     View<T, 2> y) {
  const Index width = x.width();
  threads.parallel_for(x.rows(), row_grain(width), [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      const T *const in = x.row(i), *const by = residual ? residual.row(i) : nullptr;
      T* const out = y.row(i);
      const auto put = [&](Index j, auto n, Vec<T> value) { store(out + j, by ? value + load(by + j, n) : value, n); };
      if (dropout)
        dropout.for_row<T>(i, width,
                           [&](Index j, auto n, Vec<T> factor) { put(j, n, surviving(load(in + j, n), factor)); });
      else for_vectors<T>(width, [&](Index j, auto n) { put(j, n, load(in + j, n)); });
    }
  });
}

/// dx ← dropout(dy), with the same mask.
template <class T>
void dropout_backward(const Threads& threads, ConstView<T, 2> dy, const Dropout& dropout, Gradient<T, 2> dx) {
  if (!dx) return;
  const Index width = dy.width();
  threads.parallel_for(dy.rows(), row_grain(width), [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      const T* const in = dy.row(i);
      T* const out = dx.row(i);
      const auto put = [&](Index j, auto n, Vec<T> value) {
        store(out + j, dx.add ? load(out + j, n) + value : value, n);
      };
      if (dropout)
        dropout.for_row<T>(i, width,
                           [&](Index j, auto n, Vec<T> factor) { put(j, n, surviving(load(in + j, n), factor)); });
      else for_vectors<T>(width, [&](Index j, auto n) { put(j, n, load(in + j, n)); });
    }
  });
}

}  // namespace eigenformer::kernel
