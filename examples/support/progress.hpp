// How training is going: one line that changes on a terminal, twenty lines elsewhere.
#pragma once

#include <chrono>
#include <cmath>
#include <cstdio>

#include "eigenformer/train/trainer.hpp"
#include "terminal.hpp"

namespace example {

class Progress {
 public:
  explicit Progress(eigenformer::Index steps) : steps_(steps) {}

  /// After every step, with the tokens of its batch.
  void show(const eigenformer::StepReport& report, eigenformer::Index tokens) {
    ++step_;
    tokens_ += tokens;
    loss_ += report.loss;
    ++count_;
    const auto now = Clock::now();
    const bool last = step_ == steps_;
    const bool due =
        terminal_ ? now - shown_ > std::chrono::milliseconds(200) : step_ * 20 / steps_ > (step_ - 1) * 20 / steps_;
    if (!due && !last && step_ > 1) return;
    const double seconds = std::chrono::duration<double>(now - start_).count(), done = static_cast<double>(step_);
    const long time = std::lround(last ? seconds : seconds / done * static_cast<double>(steps_ - step_));
    std::printf("%sstep %*td/%td  loss %.3f  rate %.2e  %6.0f tokens/s  %ld:%02ld %s%s", terminal_ ? "\r\033[K" : "",
                std::snprintf(nullptr, 0, "%td", steps_), step_, steps_, loss_ / static_cast<double>(count_),
                report.learning_rate, static_cast<double>(tokens_) / seconds, time / 60, time % 60,
                last ? "in all" : "left", terminal_ && !last ? "" : "\n");
    std::fflush(stdout);
    shown_ = now;
    loss_ = 0;
    count_ = 0;
  }

 private:
  using Clock = std::chrono::steady_clock;

  eigenformer::Index steps_, step_ = 0, tokens_ = 0, count_ = 0;
  double loss_ = 0;  // since it was last shown
  bool terminal_ = writes_to_terminal();
  Clock::time_point start_ = Clock::now(), shown_ = start_;
};

}  // namespace example
