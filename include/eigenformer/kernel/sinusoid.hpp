// Sinusoidal positions (Vaswani et al. 2017, section 3.5): PE(p, 2i) = sin(p / 10000^(2i/D)), PE(p, 2i+1) = cos(same).
#pragma once

#include <cmath>

#include "eigenformer/core/threads.hpp"
#include "eigenformer/core/view.hpp"
#include "eigenformer/kernel/angle_recurrence.hpp"
#include "eigenformer/kernel/positions.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

/// Two independent choices: where sines and cosines lie, and what the exponents are divided by.
struct SinusoidLayout {
  bool halves =
      false;  ///< all sines, then all cosines (tensor2tensor, fairseq), instead of side by side as in the paper
  bool inclusive = false;  ///< frequencies base^(−i/(⌊D/2⌋ − 1)), down to 1/base itself (tensor2tensor, fairseq),
                           ///< instead of base^(−2i/D)
};

namespace kernel {

/// y (B, N, D) = x (B, N, D) + PE(position). An odd last column is a sine, or in halves nothing.
template <class T>
void sinusoid_forward(const Threads& threads, ConstView<T, 3> x, const Positions& positions, double base, View<T, 3> y,
                      const SinusoidLayout& layout = {}) {
  const Index batch = x.extent(0), tokens = x.extent(1), width = x.extent(2), half = width / 2;
  const Index columns_apart = layout.halves ? half : 1, step = layout.halves ? 1 : 2;
  threads.parallel_for((width + 1) / 2, 8, [&](Index begin, Index end) {
    for (Index pair = begin; pair < end; ++pair) {
      const double divisor =
          layout.inclusive ? static_cast<double>(half > 1 ? half - 1 : 1) : static_cast<double>(width) / 2;
      AngleRecurrence angle(std::pow(base, -static_cast<double>(pair) / divisor));
      const Index sine_column = pair * step, cosine_column = sine_column + columns_apart;
      const bool has_sine = !layout.halves || pair < half, has_cosine = cosine_column < width && has_sine;
      const auto add = [&](Index b, Index n) {
        if (has_sine) y(b, n, sine_column) = x(b, n, sine_column) + static_cast<T>(angle.sine);
        else y(b, n, width - 1) = x(b, n, width - 1);
        if (has_cosine) y(b, n, cosine_column) = x(b, n, cosine_column) + static_cast<T>(angle.cosine);
      };
      for (Index i = 0; i < (positions.shared() ? 1 : batch); ++i)
        for (Index n = 0; n < tokens; ++n) {
          angle.to(positions.at(i, n));
          if (!positions.shared()) add(i, n);
          else
            for (Index b = 0; b < batch; ++b) add(b, n);
        }
    }
  });
}

}  // namespace kernel
}  // namespace eigenformer
