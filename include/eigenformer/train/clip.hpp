// The norm of a gradient, and what to multiply it by.
#pragma once

#include <cmath>
#include <string>

#include "eigenformer/core/context.hpp"
#include "eigenformer/core/visit.hpp"
#include "eigenformer/kernel/adam.hpp"

namespace eigenformer {

/// √Σ g² over all tensors, a tied one counted once; summed in double. May be infinite or NaN if the gradient is.
template <class Model>
double global_norm(Context& ctx, const Model& gradient) {
  const auto scratch = ctx.scratch();
  double sum = 0;
  walk([&](const Leaf&, const auto& slope) { sum += kernel::squared_norm(ctx.threads, ctx.arena, slope.size(), slope.data()); },
       gradient);
  return std::sqrt(sum);
}

/// min(1, limit/norm): the factor that brings a gradient of this norm down to the limit (Pascanu, Mikolov, Bengio 2013).
inline double clip_factor(double norm, double limit) { return norm > limit ? limit / norm : 1; }

}  // namespace eigenformer
