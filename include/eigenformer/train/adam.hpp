// Adam (Kingma and Ba 2015) and AdamW (Loshchilov and Hutter 2019).
#pragma once

#include <cmath>

#include "eigenformer/core/context.hpp"
#include "eigenformer/core/settings.hpp"
#include "eigenformer/core/visit.hpp"
#include "eigenformer/kernel/adam.hpp"
#include "eigenformer/train/optimiser.hpp"

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

/// The first and second moment of each weight's gradient.
template <class Model>
class Adam {
 public:
  using Config = AdamConfig;
  Model first_moment, second_moment;

  explicit Adam(const Model& model, const AdamConfig& config = {})
      : first_moment(zeros_like(model)), second_moment(first_moment), config_(config) {
    config_.validate();
  }
  static void visit(auto&& f, auto&... m) {
    f("first_moment", m.first_moment...);
    f("second_moment", m.second_moment...);
  }

  template <class Chosen = EveryTensor>
  void step(const Threads& threads, const OptimiserStep& at, Model& model, const Model& gradient,
            const Chosen& chosen = {}) {
    const auto power = static_cast<double>(at.number);
    const auto update = [&](const Leaf& leaf, auto& weight, const auto& dweight, auto& m, auto& v) {
      const kernel::AdamStep step{.beta1 = config_.beta1,
                                  .beta2 = config_.beta2,
                                  .epsilon = config_.epsilon,
                                  .learning_rate = at.learning_rate,
                                  .decay = leaf.decay == Decay::yes ? config_.decay : 0,
                                  .gradient_scale = at.gradient_scale,
                                  .correction1 = 1 - std::pow(config_.beta1, power),
                                  .correction2 = 1 - std::pow(config_.beta2, power)};
      kernel::adam_step(threads, step, weight.size(), weight.data(), dweight.data(), m.data(), v.data());
    };
    step_each("adam", at, chosen, update, model, gradient, first_moment, second_moment);
  }

 private:
  AdamConfig config_;
};

}  // namespace eigenformer
