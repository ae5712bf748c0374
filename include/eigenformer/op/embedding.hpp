// Rows of a table, and positions added to them.
#pragma once

#include <type_traits>

#include "eigenformer/core/context.hpp"
#include "eigenformer/kernel/dropout.hpp"
#include "eigenformer/kernel/embedding.hpp"
#include "eigenformer/kernel/sinusoid.hpp"
#include "eigenformer/op/weight.hpp"

namespace eigenformer::inline EIGENFORMER_ABI::op {

/// Throws unless every id is in [0, vocabulary).
template <int Rank>
void check_ids(std::string_view place, ConstView<Id, Rank> ids, Index vocabulary) {
  ensure(ids.given(), place, "no ids are given");
  const auto flat = ids.flat();
  for (Index i = 0; i < flat.extent(0); ++i)
    for (Index j = 0; j < flat.extent(1); ++j)
      ensure(flat(i, j) >= 0 && flat(i, j) < vocabulary, place, "id ", flat(i, j), " in row ", i, ", column ", j,
             " of ", ids.shape(), " is not in the vocabulary of ", vocabulary);
}

/// scale · the columns `ids` of the table: ids (B, N), table (D, V) → (B, N, D)
template <class T>
ConstView<T, 3> embedding(Context& ctx, ConstView<Id, 2> ids, const kernel::Operand<T>& table,
                          std::type_identity_t<T> scale = 1) {
  check_ids("embedding", ids, table.width);
  const auto flat_ids = ctx.save_for_backward(ids).reshape(Shape{ids.size()});
  const View<T, 3> y = ctx.output<T>(Shape{ids.extent(0), ids.extent(1), table.depth});
  kernel::embedding_forward(ctx.threads, flat_ids, table, scale, y.flat());
  ctx.record(y, [=, values = table.values](Context& back, ConstView<T, 3> dy) {
    kernel::embedding_backward(back.threads, flat_ids, dy.flat(), scale, back.gradient(values));
  });
  return y;
}

/// scale · table[ids]: ids (B, N), table (V, D) → (B, N, D)
template <class T>
ConstView<T, 3> embedding(Context& ctx, ConstView<Id, 2> ids, ConstView<T, 2> table,
                          std::type_identity_t<T> scale = 1) {
  return embedding(ctx, ids, kernel::Operand<T>::transposed(table), scale);
}
template <class T>
ConstView<T, 3> embedding(Context& ctx, ConstView<Id, 2> ids, const Weight<T>& table,
                          std::type_identity_t<T> scale = 1) {
  return embedding(ctx, ids, table.operand(), scale);
}

/// x (B, N, D) + the sinusoidal encoding of positions
template <class T>
ConstView<T, 3> add_sinusoid(Context& ctx, ConstView<T, 3> x, const Positions& positions, double base,
                             const SinusoidLayout& layout = {}) {
  positions.validate("sinusoid", x.extent(0), x.extent(1));
  ensure(x.row_stride() >= 0, "sinusoid", "the rows of ", x.shape(), " are not equally far apart");
  const View<T, 3> y = ctx.output<T>(x.shape());
  if (y.size() > 0) kernel::sinusoid_forward(ctx.threads, x, positions, base, y, layout);
  ctx.record(y, [=](Context& back, ConstView<T, 3> dy) {
    kernel::dropout_backward(back.threads, dy.flat(), {}, back.gradient(x).flat());
  });
  return y;
}

}  // namespace eigenformer::op
