// Looking up rows of a table.
#pragma once

#include "eigenformer/core/gradient.hpp"
#include "eigenformer/core/threads.hpp"
#include "eigenformer/core/view.hpp"
#include "eigenformer/kernel/operand.hpp"
#include "eigenformer/kernel/row.hpp"
#include "eigenformer/kernel/simd.hpp"

namespace eigenformer::inline EIGENFORMER_ABI::kernel {

/// y (R, D) = scale · the columns `ids` (R) of the table (D, V), which must be in [0, V).
template <class T>
void embedding_forward(const Threads& threads, ConstView<Id, 1> ids, const Operand<T>& table, T scale, View<T, 2> y) {
  const Index width = table.depth;
  threads.parallel_for(ids.size(), row_grain(width), [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      if (table.values && !table.words.words) {
        row_map(y.row(i), width) = row_map(table.values.row(ids[i]), width) * scale;
        continue;
      }
      table.column(ids[i], y.row(i));
      row_map(y.row(i), width) *= scale;
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
