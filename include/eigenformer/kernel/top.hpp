// The largest few of a row, without sorting it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "eigenformer/kernel/simd.hpp"

namespace eigenformer::inline EIGENFORMER_ABI::kernel {

/// Whether every element of a row is less than +∞, and a number: −∞ is.
template <class T>
bool bounded_above(const T* x, Index width) {
  constexpr T infinity = std::numeric_limits<T>::infinity();
  constexpr Index counted = Index{1} << 20;  // at a time: a T counts so far without rounding
  for (Index begin = 0; begin < width; begin += counted) {
    const Index count = (std::min)(counted, width - begin);
    const T below = sum_vectors<T>(count, [&](Index j, auto n) EIGENFORMER_INLINE_LAMBDA {
      return where_less(load(x + begin + j, n, infinity), Vec<T>(infinity), Vec<T>(T{1}));
    });
    if (below != static_cast<T>(count)) return false;
  }
  return true;
}

/// Memory for top(), which is kept from row to row.
struct TopRoom {
  std::vector<Id> ids;
  std::vector<double> maxima;
};

/// The ids of the `count` ≥ 1 largest of a row that is bounded_above(): the largest first, of equals the lowest id
/// first. −∞ is none of them, so that there may be fewer. They live in `room`.
template <class T>
std::span<const Id> top(const T* x, Index width, Index count, TopRoom& room) {
  // At least `count` elements are no less than the count-th largest of the maxima of blocks: few others are left to
  // compare.
  constexpr Index lanes = Vec<T>::lanes;
  const Index block = lanes * (256 * lanes * count <= width ? 16
                               : 8 * lanes * count <= width ? 4
                                                            : 1),
              blocks = width / block;
  room.ids.resize(static_cast<std::size_t>(width));
  room.maxima.resize(static_cast<std::size_t>(2 * blocks));
  Id* const ids = room.ids.data();
  double *const maxima = room.maxima.data(), *const ordered = maxima + blocks;
  for (Index b = 0; b < blocks; ++b) {
    Vec<T> most = Vec<T>::load(x + b * block);
    for (Index j = lanes; j < block; j += lanes) most = maximum(most, Vec<T>::load(x + b * block + j));
    maxima[b] = ordered[b] = static_cast<double>(largest(most));
  }
  double limit = static_cast<double>(std::numeric_limits<T>::lowest());
  if (count <= blocks) {
    std::nth_element(ordered, ordered + (count - 1), ordered + blocks, std::greater<double>());
    limit = (std::max)(limit, ordered[count - 1]);
  }
  Index held = 0;
  const auto take = [&, least = static_cast<T>(limit)](Index begin, Index end) {
    for (Index j = begin; j < end; ++j)
      if (x[j] >= least) ids[held++] = static_cast<Id>(j);
  };
  for (Index b = 0; b < blocks; ++b)
    if (maxima[b] >= limit) take(b * block, (b + 1) * block);
  take(blocks * block, width);

  const auto better = [x](Id a, Id b) { return x[a] != x[b] ? x[a] > x[b] : a < b; };
  count = (std::min)(count, held);
  if (count < held) std::nth_element(ids, ids + count, ids + held, better);
  std::sort(ids, ids + count, better);
  return {ids, static_cast<std::size_t>(count)};
}

/// −∞ for all that come after `last` in the order of top().
template <class T>
void exclude_after(T* x, Index width, Id last) {
  const Vec<T> limit(x[last]), nothing(-std::numeric_limits<T>::infinity());
  for_vectors<T>(last, [&](Index j, auto n) EIGENFORMER_INLINE_LAMBDA {
    const Vec<T> in = load(x + j, n);
    store(x + j, choose_less(in, limit, nothing, in), n);
  });
  T* const rest = x + last + 1;
  for_vectors<T>(width - last - 1, [&](Index j, auto n) EIGENFORMER_INLINE_LAMBDA {
    const Vec<T> in = load(rest + j, n);
    store(rest + j, choose_less(limit, in, in, nothing), n);
  });
}

}  // namespace eigenformer::kernel
