// One step of gradient descent with momentum.
#pragma once

#include "eigenformer/core/threads.hpp"
#include "eigenformer/kernel/adam.hpp"
#include "eigenformer/kernel/simd.hpp"

namespace eigenformer::inline EIGENFORMER_ABI::kernel {

struct SgdStep {
  double momentum;
  bool nesterov;
  double learning_rate;
  double decay;           // coupled: g ← g + decay·w
  double gradient_scale;  // the gradient is multiplied by this first
};

/// g ← scale·g + decay·w, v ← μ v + g, w ← w − lr·v; with Nesterov's momentum w ← w − lr·(g + μ v)
template <class T>
void sgd_step(const Threads& threads, const SgdStep& step, Index count, T* weight, const T* gradient, T* velocity) {
  const T momentum = static_cast<T>(step.momentum), scale = static_cast<T>(step.gradient_scale),
          decay = static_cast<T>(step.decay), rate = static_cast<T>(step.learning_rate);
  threads.parallel_for(count, flat_grain, [&](Index begin, Index end) {
    for_vectors<T>(end - begin, [&](Index offset, auto n) {
      using V = Vec<T>;
      const Index i = begin + offset;
      const V w = load(weight + i, n), g = fma(w, V(decay), load(gradient + i, n) * V(scale)),
              v = fma(load(velocity + i, n), V(momentum), g);
      store(velocity + i, v, n);
      store(weight + i, fma(step.nesterov ? fma(v, V(momentum), g) : v, V(-rate), w), n);
    });
  });
}

}  // namespace eigenformer::kernel
