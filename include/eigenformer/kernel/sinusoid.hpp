// Sinusoidal positions (Vaswani et al. 2017, section 3.5): PE(p, 2i) = sin(p / 10000^(2i/D)), PE(p, 2i+1) = cos(same).
#pragma once

#include <cmath>

#include "eigenformer/core/threads.hpp"
#include "eigenformer/core/view.hpp"

namespace eigenformer {

/// Two independent choices: where sines and cosines lie, and what the exponents are divided by.
struct SinusoidLayout {
  bool halves = false;     ///< all sines, then all cosines (tensor2tensor, fairseq), instead of side by side as in the paper
  bool inclusive = false;  ///< frequencies base^(−i/(⌊D/2⌋ − 1)), down to 1/base itself (tensor2tensor, fairseq), instead of base^(−2i/D)
};

namespace kernel {

/// y (B, N, D) = x (B, N, D) + PE(first + n). Angles are computed in double: directly at every 32nd position, in between
/// by the rotation PE(p+1) = R·PE(p); the value at a position does not depend on `first` or N. An odd last column is a sine, or
/// in halves nothing.
template <class T>
void sinusoid_forward(const Threads& threads, ConstView<T, 3> x, Index first, double base, View<T, 3> y, const SinusoidLayout& layout = {}) {
  constexpr Index anchor = 32;
  const Index batch = x.extent(0), tokens = x.extent(1), width = x.extent(2), half = width / 2;
  const Index columns_apart = layout.halves ? half : 1, step = layout.halves ? 1 : 2;
  threads.parallel_for((width + 1) / 2, 8, [&](Index begin, Index end) {
    for (Index pair = begin; pair < end; ++pair) {
      const double divisor = layout.inclusive ? static_cast<double>(half > 1 ? half - 1 : 1) : static_cast<double>(width) / 2;
      const double frequency = std::pow(base, -static_cast<double>(pair) / divisor);
      const Index sine_column = pair * step, cosine_column = sine_column + columns_apart;
      const bool has_sine = !layout.halves || pair < half, has_cosine = cosine_column < width && has_sine;
      const double step_sine = std::sin(frequency), step_cosine = std::cos(frequency);
      double sine = 0, cosine = 1;
      for (Index position = first - first % anchor; position < first + tokens; ++position) {
        if (position % anchor == 0) {
          sine = std::sin(static_cast<double>(position) * frequency);
          cosine = std::cos(static_cast<double>(position) * frequency);
        } else {
          const double turned = sine * step_cosine + cosine * step_sine;
          cosine = cosine * step_cosine - sine * step_sine;
          sine = turned;
        }
        if (position < first) continue;
        const Index n = position - first;
        for (Index b = 0; b < batch; ++b) {
          if (has_sine) y(b, n, sine_column) = x(b, n, sine_column) + static_cast<T>(sine);
          else y(b, n, width - 1) = x(b, n, width - 1);
          if (has_cosine) y(b, n, cosine_column) = x(b, n, cosine_column) + static_cast<T>(cosine);
        }
      }
    }
  });
}

}  // namespace kernel
}  // namespace eigenformer
