// Learning rates by step; steps count from 1.
#pragma once

#include <algorithm>
#include <cmath>

#include "eigenformer/core/error.hpp"
#include "eigenformer/core/scalar.hpp"

namespace eigenformer {

/// factor · D^−½ · min(step^−½, step · warm_up^−1.5) (Vaswani et al. 2017, equation 3); no warm-up if warm_up is 0.
struct WarmUp {
  Index width = 512, warm_up = 4000;
  double factor = 1;

  double operator()(Index step) const {
    require(width > 0 && warm_up >= 0, "warm_up", "width ", width, " and warm-up ", warm_up, " make no schedule");
    require(step >= 1, "warm_up", "steps count from 1, not ", step);
    const auto at = static_cast<double>(step);
    const double rising = warm_up > 0 ? at * std::pow(static_cast<double>(warm_up), -1.5) : 1 / std::sqrt(at);
    return factor / std::sqrt(static_cast<double>(width)) * (std::min)(1 / std::sqrt(at), rising);
  }
};

/// Always the same.
struct ConstantRate {
  double rate = 1e-3;

  double operator()(Index) const { return rate; }
};

}  // namespace eigenformer
