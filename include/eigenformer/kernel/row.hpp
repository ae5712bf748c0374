// Rows as Eigen arrays, and how many of them make a piece of work.
#pragma once

#include <Eigen/Core>
#include <algorithm>

#include "eigenformer/core/scalar.hpp"

namespace eigenformer::kernel {

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

}  // namespace eigenformer::kernel
