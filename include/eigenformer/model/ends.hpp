// The ends of a model: what tokens become before its blocks, and hidden states after them.
#pragma once

#include <type_traits>

#include "eigenformer/layer/embedding.hpp"
#include "eigenformer/layer/linear.hpp"
#include "eigenformer/op/activation.hpp"
#include "eigenformer/op/affine.hpp"
#include "eigenformer/op/dropout.hpp"

namespace eigenformer::inline EIGENFORMER_ABI::detail {

/// ids (B, N) → rows of the table with positions, plus `also` (B, N, D) or nothing, through the norm, if there is one,
/// and dropout: (B, N, D)
template <class T, class Norm>
ConstView<T, 3> token_states(Context& ctx, const Embedding<T>& table, const auto& position, const Norm* norm,
                             double dropout, ConstView<Id, 2> ids, const Positions& positions,
                             std::type_identity_t<ConstView<T, 3>> also = {}) {
  auto x = position.embed(ctx, table(ctx, ids), positions);
  if (also) x = op::add(ctx, x, also);
  return op::dropout(ctx, norm ? (*norm)(ctx, x) : x, dropout);
}

/// How hidden states become logits.
struct LogitSettings {
  double scale = 1;  ///< of the hidden states
  double cap = 0;    ///< logits become cap·tanh(logits/cap); 0: they stay
};
/// x (B, N, D) → logits (B, N, V): by a head of their own or tied to the table, with a bias (V) or none
template <class T>
ConstView<T, 3> token_logits(Context& ctx, ConstView<T, 3> x, const Weight<T>& weight,
                             std::type_identity_t<ConstView<T, 1>> bias, const LogitSettings& settings = {}) {
  const auto logits = op::linear(ctx, op::scale(ctx, x, settings.scale), weight, bias);
  if (settings.cap == 0) return logits;
  return op::scale(ctx, op::activate<Tanh>(ctx, op::scale(ctx, logits, 1 / settings.cap)), settings.cap);
}

}  // namespace eigenformer::detail
