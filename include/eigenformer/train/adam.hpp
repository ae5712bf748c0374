// Adam (Kingma and Ba 2015) and AdamW (Loshchilov and Hutter 2019) over (model, gradient, first and second moment).
#pragma once

#include <cmath>
#include <cstddef>

#include "eigenformer/core/context.hpp"
#include "eigenformer/core/settings.hpp"
#include "eigenformer/core/visit.hpp"
#include "eigenformer/kernel/adam.hpp"
#include "eigenformer/train/clip.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

/// The defaults are the Transformer paper's (section 5.3). decay > 0 makes it AdamW: decoupled, on matrices only.
struct AdamConfig {
  double beta1 = 0.9, beta2 = 0.98, epsilon = 1e-9;
  double decay = 0;

  /// Throws if a setting is invalid.
  void validate() const {
    require_range("adam", "beta1", beta1, 0, 1);
    require_range("adam", "beta2", beta2, 0, 1);
    require_range("adam", "epsilon", epsilon, smallest_real);
    require_range("adam", "decay", decay, 0);
  }
  friend bool operator==(const AdamConfig&, const AdamConfig&) = default;
};

/// Step number `step` ≥ 1; the gradient is multiplied by gradient_scale first. Weights and moments of the i-th tensor
/// of the walk stay as they are unless chosen(i).
template <class Model, class Chosen = EveryTensor>
void adam(const Threads& threads, const AdamConfig& config, Index step, double learning_rate, double gradient_scale,
          Model& model, const Model& gradient, Model& first, Model& second, const Chosen& chosen = {}) {
  ensure(step >= 1, "adam", "steps count from 1, not ", step);
  config.validate();
  require_range("adam", "learning_rate", learning_rate, 0);
  walk([](const Leaf&, auto&...) {}, model, gradient, first,
       second);  // throws where they differ, before anything changes
  const auto power = static_cast<double>(step);
  std::size_t number = 0;
  walk(
      [&](const Leaf& leaf, auto& weight, const auto& dweight, auto& m, auto& v) {
        if (!chosen(number++)) return;
        const kernel::AdamStep at{.beta1 = config.beta1,
                                  .beta2 = config.beta2,
                                  .epsilon = config.epsilon,
                                  .learning_rate = learning_rate,
                                  .decay = leaf.decay == Decay::yes ? config.decay : 0,
                                  .gradient_scale = gradient_scale,
                                  .correction1 = 1 - std::pow(config.beta1, power),
                                  .correction2 = 1 - std::pow(config.beta2, power)};
        kernel::adam_step(threads, at, weight.size(), weight.data(), dweight.data(), m.data(), v.data());
      },
      model, gradient, first, second);
}

}  // namespace eigenformer
