// One step of Adam (Kingma and Ba 2015) or AdamW (Loshchilov and Hutter 2019), and the norm of a gradient.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>

#include "eigenformer/core/arena.hpp"
#include "eigenformer/core/threads.hpp"
#include "eigenformer/core/view.hpp"
#include "eigenformer/kernel/row.hpp"
#include "eigenformer/kernel/simd.hpp"

namespace eigenformer::inline EIGENFORMER_ABI::kernel {

inline constexpr Index flat_grain = 16384;  // elements of a piece

struct AdamStep {
  double beta1, beta2, epsilon;
  double learning_rate;
  double decay;                     // decoupled: w ← w − learning_rate·decay·w
  double gradient_scale;            // the gradient is multiplied by this first
  double correction1, correction2;  // 1 − β1ᵗ, 1 − β2ᵗ
};

/// m ← β1 m + (1−β1) g, v ← β2 v + (1−β2) g², w ← w − lr·(m/c1) / (√(v/c2) + ε)
template <class T>
void adam_step(const Threads& threads, const AdamStep& step, Index count, T* weight, const T* gradient, T* first,
               T* second) {
  const T beta1 = static_cast<T>(step.beta1), beta2 = static_cast<T>(step.beta2),
          epsilon = static_cast<T>(step.epsilon);
  const T rest1 = static_cast<T>(1 - step.beta1), rest2 = static_cast<T>(1 - step.beta2);
  const T scale = static_cast<T>(step.gradient_scale), keep = static_cast<T>(1 - step.learning_rate * step.decay);
  const T rate = static_cast<T>(step.learning_rate / step.correction1),
          root = static_cast<T>(1 / std::sqrt(step.correction2));
  threads.parallel_for(count, flat_grain, [&](Index begin, Index end) {
    for_vectors<T>(end - begin, [&](Index offset, auto n) {
      using V = Vec<T>;
      const Index i = begin + offset;
      const V g = load(gradient + i, n) * V(scale);
      const V m = fma(load(first + i, n), V(beta1), g * V(rest1)),
              v = fma(load(second + i, n), V(beta2), g * g * V(rest2));
      store(first + i, m, n);
      store(second + i, v, n);
      const V size = maximum(fma(square_root(v), V(root), V(epsilon)),
                             V((std::numeric_limits<T>::min)()));  // without ε, 0/0 would be NaN
      store(weight + i, fma(load(weight + i, n), V(keep), V(-rate) * m / size), n);
    });
  });
}

/// Σ x², in double and in an order fixed by the size.
template <class T>
double squared_norm(const Threads& threads, Arena& arena, Index count, const T* x) {
  const Index pieces = (count + flat_grain - 1) / flat_grain;
  const auto sums = arena.allocate<double>(Shape{pieces});
  threads.parallel_for(count, flat_grain, [&](Index begin, Index end) {
    constexpr Index chains = 32;
    double chain[static_cast<std::size_t>(chains)] = {};
    Index i = begin;
    for (; i + chains <= end; i += chains)
      for (Index c = 0; c < chains; ++c) chain[c] += static_cast<double>(x[i + c]) * static_cast<double>(x[i + c]);
    for (; i < end; ++i) chain[0] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    for (Index half = chains / 2; half > 0; half /= 2)  // not Eigen's sum(): it begins where memory is aligned
      for (Index c = 0; c < half; ++c) chain[c] += chain[c + half];
    sums[begin / flat_grain] = chain[0];
  });
  double sum = 0;
  for (Index i = 0; i < pieces; ++i) sum += sums[i];
  return sum;
}

}  // namespace eigenformer::kernel
