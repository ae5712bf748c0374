// The norm of a gradient, and what to multiply it by.
#pragma once

#include <cmath>
#include <cstddef>

#include "eigenformer/core/context.hpp"
#include "eigenformer/core/visit.hpp"
#include "eigenformer/kernel/adam.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

/// For global_norm() and adam(): every tensor of a model.
struct EveryTensor {
  constexpr bool operator()(std::size_t) const { return true; }
};

/// √Σ g² over all tensors, a tied one counted once, or those for whose number in the walk chosen(i); summed in double.
/// May be infinite or NaN if the gradient is.
template <class Model, class Chosen = EveryTensor>
double global_norm(Context& ctx, const Model& gradient, const Chosen& chosen = {}) {
  const auto scratch = ctx.scratch();
  double sum = 0;
  std::size_t number = 0;
  walk(
      [&](const Leaf&, const auto& dweight) {
        if (chosen(number++)) sum += kernel::squared_norm(ctx.threads, ctx.arena, dweight.size(), dweight.data());
      },
      gradient);
  return std::sqrt(sum);
}

/// min(1, limit/norm): the factor that brings a gradient of this norm down to the limit (Pascanu, Mikolov, Bengio
/// 2013).
inline double clip_factor(double norm, double limit) { return norm > limit ? limit / norm : 1; }

}  // namespace eigenformer
