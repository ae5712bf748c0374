// Angles that grow with the position: sinusoids and rotary positions.
#pragma once

#include <cmath>

#include "eigenformer/core/scalar.hpp"
#include "eigenformer/kernel/simd.hpp"

namespace eigenformer::inline EIGENFORMER_ABI::kernel {

/// Sine and cosine of position·frequency, in double: directly at every 32nd position, in between by the rotation of one
/// step; so the value at a position depends on nothing else.
class AngleRecurrence {
 public:
  double sine = 0, cosine = 1;

  explicit AngleRecurrence(double frequency)
      : frequency_(frequency), step_sine_(std::sin(frequency)), step_cosine_(std::cos(frequency)) {}

  void to(Index position) {
    constexpr Index anchor = 32;
    const Index start = position - position % anchor;
    if (at_ < start || at_ > position) {
      at_ = start;
      sine = std::sin(static_cast<double>(at_) * frequency_);
      cosine = std::cos(static_cast<double>(at_) * frequency_);
    }
    for (; at_ < position; ++at_) {
      const double turned = sine * step_cosine_ + cosine * step_sine_;
      cosine = cosine * step_cosine_ - sine * step_sine_;
      sine = turned;
    }
  }

 private:
  double frequency_, step_sine_, step_cosine_;
  Index at_ = -1;
};

}  // namespace eigenformer::kernel
