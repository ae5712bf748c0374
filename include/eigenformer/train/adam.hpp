// Adam (Kingma and Ba 2015) and AdamW (Loshchilov and Hutter 2019) over (model, gradient, first and second moment).
#pragma once

#include <cmath>
#include <string>

#include "eigenformer/core/context.hpp"
#include "eigenformer/core/visit.hpp"
#include "eigenformer/kernel/adam.hpp"

namespace eigenformer {

/// The defaults are the Transformer paper's (section 5.3). decay > 0 makes it AdamW: decoupled, on matrices only.
struct AdamConfig {
  double beta1 = 0.9, beta2 = 0.98, epsilon = 1e-9;
  double decay = 0;

  bool valid() const { return beta1 >= 0 && beta1 < 1 && beta2 >= 0 && beta2 < 1 && epsilon >= 0 && decay >= 0; }
  std::string text() const {
    return "beta " + detail::error_part(beta1) + ", " + detail::error_part(beta2) + ", epsilon " + detail::error_part(epsilon) +
           ", decay " + detail::error_part(decay) + " make no sense";
  }
};

/// Step number `step` ≥ 1; the gradient is multiplied by gradient_scale first.
template <class Model>
void adam(const Threads& threads, const AdamConfig& config, Index step, double learning_rate, double gradient_scale, Model& model,
          const Model& gradient, Model& first, Model& second) {
  require(step >= 1, "adam", "steps count from 1, not ", step);
  if (!config.valid()) fail("adam", config.text());
  walk([](const Leaf&, auto&...) {}, model, gradient, first, second);  // throws where they differ, before anything changes
  const auto power = static_cast<double>(step);
  walk(
      [&](const Leaf& leaf, auto& weight, const auto& slope, auto& m, auto& v) {
        const kernel::AdamStep at{.beta1 = config.beta1, .beta2 = config.beta2, .epsilon = config.epsilon,
                                  .learning_rate = learning_rate, .decay = leaf.decay == Decay::yes ? config.decay : 0,
                                  .gradient_scale = gradient_scale, .correction1 = 1 - std::pow(config.beta1, power),
                                  .correction2 = 1 - std::pow(config.beta2, power)};
        kernel::adam_step(threads, at, weight.size(), weight.data(), slope.data(), m.data(), v.data());
      },
      model, gradient, first, second);
}

}  // namespace eigenformer
