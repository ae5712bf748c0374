// The most probable token.
#pragma once

#include <cmath>

#include "eigenformer/core/error.hpp"
#include "eigenformer/core/scalar.hpp"

namespace eigenformer {

/// Of logits (V), V ≥ 1; of equals the lowest id. NaN is an Error: it is no answer, and would pass for one.
template <class T>
Id best_token(const T* logits, Index vocabulary) {
  Index best = 0;
  for (Index v = 0; v < vocabulary; ++v) {
    if (std::isnan(logits[v])) fail("decode", "the logit of token ", v, " is not a number");
    if (logits[v] > logits[best]) best = v;
  }
  return static_cast<Id>(best);
}

}  // namespace eigenformer
