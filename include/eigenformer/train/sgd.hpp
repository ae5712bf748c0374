// Stochastic gradient descent with momentum (Sutskever et al. 2013), in the form of torch.optim.SGD.
#pragma once

#include "eigenformer/core/context.hpp"
#include "eigenformer/core/settings.hpp"
#include "eigenformer/core/visit.hpp"
#include "eigenformer/kernel/sgd.hpp"
#include "eigenformer/train/optimiser.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

struct SgdConfig {
  double momentum = 0;    ///< μ
  bool nesterov = false;  ///< steps by the gradient and the velocity to come
  double decay = 0;       ///< λ, added to the gradient as λ·w (L2), on matrices only

  /// Throws if a setting is invalid.
  void validate() const {
    require_range("sgd", "momentum", momentum, 0, 1);
    require_range("sgd", "decay", decay, 0);
  }
  friend bool operator==(const SgdConfig&, const SgdConfig&) = default;
};

/// The velocity of each weight.
template <class Model>
class Sgd {
 public:
  using Config = SgdConfig;
  Model velocity;

  explicit Sgd(const Model& model, const SgdConfig& config = {}) : velocity(zeros_like(model)), config_(config) {
    config_.validate();
  }
  static void visit(auto&& f, auto&... m) { f("velocity", m.velocity...); }

  template <class Chosen = EveryTensor>
  void step(const Threads& threads, const OptimiserStep& at, Model& model, const Model& gradient,
            const Chosen& chosen = {}) {
    const auto update = [&](const Leaf& leaf, auto& weight, const auto& dweight, auto& v) {
      const kernel::SgdStep step{.momentum = config_.momentum,
                                 .nesterov = config_.nesterov,
                                 .learning_rate = at.learning_rate,
                                 .decay = leaf.decay == Decay::yes ? config_.decay : 0,
                                 .gradient_scale = at.gradient_scale};
      kernel::sgd_step(threads, step, weight.size(), weight.data(), dweight.data(), v.data());
    };
    step_each("sgd", at, chosen, update, model, gradient, velocity);
  }

 private:
  SgdConfig config_;
};

}  // namespace eigenformer
