// Sinusoidal positions (Vaswani et al. 2017, section 3.5): PE(p, 2i) = sin(p / 10000^(2i/D)), PE(p, 2i+1) = cos(same).
#pragma once

#include <cmath>

#include "eigenformer/core/threads.hpp"
#include "eigenformer/core/view.hpp"

namespace eigenformer::kernel {

/// y (B, N, D) = x (B, N, D) + PE(first + n). Angles are computed in double: directly at every 32nd position, in between
/// by the rotation PE(p+1) = R·PE(p); the value at a position does not depend on `first` or N. An odd last column is a sine.
template <class T>
void sinusoid_forward(const Threads& threads, ConstView<T, 3> x, Index first, double base, View<T, 3> y) {
  constexpr Index anchor = 32;
  const Index batch = x.extent(0), tokens = x.extent(1), width = x.extent(2);
  threads.parallel_for((width + 1) / 2, 8, [&](Index begin, Index end) {
    for (Index pair = begin; pair < end; ++pair) {
      const double frequency = std::pow(base, -2.0 * static_cast<double>(pair) / static_cast<double>(width));
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
          y(b, n, 2 * pair) = x(b, n, 2 * pair) + static_cast<T>(sine);
          if (2 * pair + 1 < width) y(b, n, 2 * pair + 1) = x(b, n, 2 * pair + 1) + static_cast<T>(cosine);
        }
      }
    }
  });
}

}  // namespace eigenformer::kernel
