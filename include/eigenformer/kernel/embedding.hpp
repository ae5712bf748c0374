// Looking up rows of a table.
#pragma once

#include "eigenformer/core/gradient.hpp"
#include "eigenformer/core/threads.hpp"
#include "eigenformer/core/view.hpp"
#include "eigenformer/kernel/gemm.hpp"
#include "eigenformer/kernel/row.hpp"
#include "eigenformer/kernel/simd.hpp"

namespace eigenformer::inline EIGENFORMER_ABI::kernel {

/// y (R, D) = scale · table (V, D) at ids (R), which must be in [0, V).
template <class T>
void embedding_forward(const Threads& threads, ConstView<Id, 1> ids, ConstView<T, 2> table, T scale, View<T, 2> y) {
  const Index width = table.width();
  threads.parallel_for(ids.size(), row_grain(width), [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) row_map(y.row(i), width) = row_map(table.row(ids[i]), width) * scale;
  });
}

/// The same with the table packed as a right factor; each element of its rows is a line apart.
template <class T>
void embedding_forward(const Threads& threads, ConstView<Id, 1> ids, const Panels<T>& table, T scale, View<T, 2> y) {
  threads.parallel_for(ids.size(), row_grain(table.depth), [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      const T* const row = table.at(ids[i] / Tile<T>::width, 0) + ids[i] % Tile<T>::width;
      for (Index k = 0; k < table.depth; ++k) y(i, k) = row[k * Tile<T>::width] * scale;
    }
  });
}

/// dtable at ids ← dtable + scale · dy; each thread takes some columns and all rows in order, so that the sums do not
/// depend on the threads.
template <class T>
void embedding_backward(const Threads& threads, ConstView<Id, 1> ids, ConstView<T, 2> dy, T scale,
                        Gradient<T, 2> dtable) {
  if (!dtable) return;
  threads.parallel_for(dy.width(), 64, [&](Index begin, Index end) {
    if (!dtable.add) dtable.view.slice(1, begin, end - begin).matrix().setZero();
    for (Index i = 0; i < ids.size(); ++i)
      row_map(dtable.row(ids[i]) + begin, end - begin) += row_map(dy.row(i) + begin, end - begin) * scale;
  });
}

}  // namespace eigenformer::kernel
