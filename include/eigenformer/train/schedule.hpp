// Learning rates by step; steps count from 1.
#pragma once

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string_view>

#include "eigenformer/core/error.hpp"
#include "eigenformer/core/scalar.hpp"
#include "eigenformer/core/settings.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

namespace detail {

inline double checked_step(std::string_view place, Index step) {
  ensure(step >= 1, place, "steps count from 1, not ", step);
  return static_cast<double>(step);
}

/// From 0 to 1 in so many steps; 1 from the first on if there are none.
inline double risen(std::string_view place, Index step, Index warm_up) {
  require_range(place, "warm_up", warm_up, 0, largest_index);
  const double at = checked_step(place, step);
  return step < warm_up ? at / static_cast<double>(warm_up) : 1;
}

/// How much of the way from the end of the warm-up to step `steps` is done, 0 … 1.
inline double descended(std::string_view place, Index step, Index steps, Index warm_up) {
  require_range(place, "steps", steps, 1, largest_index);
  require_range(place, "warm_up", warm_up, 0, steps);
  if (step >= steps) return 1;
  return step <= warm_up ? 0 : static_cast<double>(step - warm_up) / static_cast<double>(steps - warm_up);
}

}  // namespace detail

/// factor · D^−½ · min(step^−½, step · warm_up^−1.5) (Vaswani et al. 2017, equation 3); no warm-up if warm_up is 0.
struct WarmUp {
  Index width = 0;  ///< D of the model, which must be given
  Index warm_up = 4000;
  double factor = 1;

  double operator()(Index step) const {
    require_range("warm_up", "width", width, 1);
    require_range("warm_up", "warm_up", warm_up, 0, largest_index);
    require_range("warm_up", "factor", factor, 0);
    const double at = detail::checked_step("warm_up", step);
    const double rising = warm_up > 0 ? at * std::pow(static_cast<double>(warm_up), -1.5) : 1 / std::sqrt(at);
    return factor / std::sqrt(static_cast<double>(width)) * (std::min)(1 / std::sqrt(at), rising);
  }
};

/// Always the same, after a linear warm-up of so many steps.
struct ConstantRate {
  double rate = 1e-3;
  Index warm_up = 0;

  double operator()(Index step) const {
    require_range("constant_rate", "rate", rate, 0);
    return rate * detail::risen("constant_rate", step, warm_up);
  }
};

namespace detail {

struct Line {
  static constexpr std::string_view place = "linear_decay";
  static double between(double rate, double end, double done) { return rate + (end - rate) * done; }
};
struct HalfCosine {
  static constexpr std::string_view place = "cosine_decay";
  static double between(double rate, double end, double done) {
    return end + (rate - end) * (1 + std::cos(std::numbers::pi * done)) / 2;
  }
};

}  // namespace detail

/// A linear warm-up to `rate`, then along a curve down to `end` at step `steps`, where it stays.
template <class Curve>
struct DecayingRate {
  double rate = 1e-3;
  Index steps = 0;  ///< of the whole training, which must be given
  Index warm_up = 0;
  double end = 0;

  double operator()(Index step) const {
    require_range(Curve::place, "rate", rate, 0);
    require_range(Curve::place, "end", end, 0);
    const double done = detail::descended(Curve::place, step, steps, warm_up);
    return Curve::between(rate, end, done) * detail::risen(Curve::place, step, warm_up);
  }
};

/// A straight line (Devlin et al. 2019).
using LinearDecay = DecayingRate<detail::Line>;
/// Half a cosine (Loshchilov and Hutter 2017, equation 5, without restarts).
using CosineDecay = DecayingRate<detail::HalfCosine>;

}  // namespace eigenformer
