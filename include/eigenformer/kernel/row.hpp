// Rows as Eigen arrays, and how many of them make a piece of work.
#pragma once

#include <algorithm>

#include "eigenformer/core/eigen.hpp"
#include "eigenformer/core/scalar.hpp"
#include "eigenformer/core/view.hpp"
#include "eigenformer/kernel/simd.hpp"

namespace eigenformer::inline EIGENFORMER_ABI::kernel {

template <class T>
using RowMap = Eigen::Map<Eigen::Array<T, 1, Eigen::Dynamic>>;
template <class T>
using ConstRowMap = Eigen::Map<const Eigen::Array<T, 1, Eigen::Dynamic>>;

template <class T>
RowMap<T> row_map(T* data, Index width) {
  return {data, width};
}
template <class T>
ConstRowMap<T> row_map(const T* data, Index width) {
  return {data, width};
}

/// Rows per piece for a pass over memory: enough to pay for handing it to another thread.
inline Index row_grain(Index width) { return (std::max)(Index{1}, Index{16384} / (std::max)(width, Index{1})); }

/// Asks for part of a row of x, which may be null, before it is needed.
template <class T>
void prefetch_row(ConstView<T, 2> x, Index row, Index column, Index count) {
  if (!x) return;
  for (Index j = 0; j < count; j += Vec<T>::lanes) prefetch_to_write(x.row(row) + column + j);
}

}  // namespace eigenformer::kernel
