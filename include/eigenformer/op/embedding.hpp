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
  ensure(is_given(ids), place, "no ids are given");
  const auto flat = ids.flat();
  for (Index i = 0; i < flat.extent(0); ++i)
    for (Index j = 0; j < flat.extent(1); ++j)
      ensure(flat(i, j) >= 0 && flat(i, j) < vocabulary, place, "id ", flat(i, j), " in row ", i, ", column ", j,
             " of ", ids.shape(), " is not in the vocabulary of ", vocabulary);
}

/// scale · table[ids]: ids (B, N), table (V, D) → (B, N, D)
template <class T>
ConstView<T, 3> embedding(Context& ctx, ConstView<Id, 2> ids, ConstView<T, 2> table,
                          std::type_identity_t<T> scale = 1) {
  check_ids("embedding", ids, table.extent(0));
  const auto flat_ids = ctx.save_for_backward(ids).reshape(Shape{ids.size()});
  const View<T, 3> y = ctx.output<T>(Shape{ids.extent(0), ids.extent(1), table.extent(1)});
  kernel::embedding_forward(ctx.threads, flat_ids, table, scale, y.flat());
  ctx.record(y, [=](Context& back, ConstView<T, 3> dy) {
    kernel::embedding_backward(back.threads, flat_ids, dy.flat(), scale, back.gradient(table));
  });
  return y;
}

/// The same from a weight, of which the packed copy may be all that is kept.
template <class T>
ConstView<T, 3> embedding(Context& ctx, ConstView<Id, 2> ids, const Weight<T>& table,
                          std::type_identity_t<T> scale = 1) {
  if (table.keeps_values() || ctx.tape) return embedding(ctx, ids, table.view(), scale);
  const auto panels = table.panels();
  check_ids("embedding", ids, table.extent(0));
  const View<T, 3> y = ctx.output<T>(Shape{ids.extent(0), ids.extent(1), table.extent(1)});
  kernel::embedding_forward(ctx.threads, ctx.save_for_backward(ids).reshape(Shape{ids.size()}), panels, scale,
                            y.flat());
  return y;
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
