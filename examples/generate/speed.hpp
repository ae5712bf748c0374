// How fast a text came, and how fast this machine reads memory: what a step cannot beat, since it reads every weight.
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "eigenformer/core/tensor.hpp"
#include "eigenformer/core/threads.hpp"

namespace generating {

using eigenformer::Index;

class Clock {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// Bytes read per second, the best of three passes over so many bytes: from memory or, if they fit there, from a cache.
inline double read_bandwidth(const eigenformer::Threads& threads, double bytes) {
  constexpr Index piece = Index{1} << 16;
  const Index count = (static_cast<Index>(bytes / sizeof(float)) / piece + 1) * piece;
  eigenformer::Tensor<float, 1> memory(eigenformer::Shape{count});
  std::fill_n(memory.data(), count, 1.0F);  // what nobody has written to is no memory
  eigenformer::Tensor<float, 1> sums(eigenformer::Shape{count / piece});
  double best = 0;
  for (int pass = 0; pass < 3; ++pass) {
    const Clock clock;
    threads.parallel_for(count, piece, [&](Index begin, Index end) {
      sums.data()[begin / piece] = Eigen::Map<const Eigen::ArrayXf>(memory.data() + begin, end - begin).sum();
    });
    if (sums(0) > 0) best = (std::max)(best, static_cast<double>(count) * sizeof(float) / clock.seconds());
  }
  return best;
}

/// To standard error. The first token is the prompt's; a step reads so many bytes.
inline void report(Index prompt, double prompt_seconds, Index steps, double step_seconds, double step_bytes,
                   double bandwidth) {
  std::fprintf(stderr, "prompt: %td token%s, %.0f tokens/s", prompt, prompt == 1 ? "" : "s",
               static_cast<double>(prompt) / prompt_seconds);
  if (steps > 0) {
    std::fprintf(stderr, "; then %td token%s, %.0f tokens/s", steps, steps == 1 ? "" : "s",
                 static_cast<double>(steps) / step_seconds);
    if (step_bytes > 0)
      std::fprintf(stderr, ", %.2f of the speed of reading its weights",
                   step_bytes * static_cast<double>(steps) / step_seconds / bandwidth);
  }
  std::fprintf(stderr, "\n");
}

}  // namespace generating
