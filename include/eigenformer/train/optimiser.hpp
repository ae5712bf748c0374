// What every optimiser has in common: a struct over the model that owns its state and takes steps.
#pragma once

#include <concepts>
#include <cstddef>
#include <string_view>
#include <utility>

#include "eigenformer/core/context.hpp"
#include "eigenformer/core/settings.hpp"
#include "eigenformer/core/visit.hpp"
#include "eigenformer/train/clip.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

/// What an optimiser is told of a step.
struct OptimiserStep {
  Index number = 1;  ///< 1, 2, …
  double learning_rate = 0;
  double gradient_scale = 1;  ///< the gradient is multiplied by this first
};

/// Adam and Sgd are examples: state for each weight, which visit() lists, and a step. Weights and state of the i-th
/// tensor of the walk stay as they are unless chosen(i).
template <class F, class Model>
concept OptimiserOf = std::constructible_from<F, const Model&, const typename F::Config&> &&
    requires(F& optimiser, const Threads& threads, Model& model, const OptimiserStep& at) {
  optimiser.step(threads, at, model, std::as_const(model), EveryTensor());
};

/// f(leaf, weight, gradient, state...) for each chosen tensor of (model, gradient, states...). Throws before anything
/// changes if they differ in shape.
template <class Model, class Chosen>
void step_each(std::string_view place, const OptimiserStep& at, const Chosen& chosen, auto&& f, Model& model,
               const Model& gradient, auto&... states) {
  ensure(at.number >= 1, place, "steps count from 1, not ", at.number);
  require_range(place, "learning_rate", at.learning_rate, 0);
  walk([](const Leaf&, auto&...) {}, model, gradient, states...);
  std::size_t number = 0;
  walk(
      [&](const Leaf& leaf, auto& weight, const auto& dweight, auto&... state) {
        if (chosen(number++)) f(leaf, weight, dweight, state...);
      },
      model, gradient, states...);
}

}  // namespace eigenformer
