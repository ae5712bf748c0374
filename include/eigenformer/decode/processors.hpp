// Logits processors: what changes the logits of the next token before one is chosen. A processor is anything that can
// be called with a DecodeStep and the logits; an excluded token gets −∞.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "eigenformer/core/error.hpp"
#include "eigenformer/core/scalar.hpp"
#include "eigenformer/core/settings.hpp"
#include "eigenformer/kernel/row.hpp"
#include "eigenformer/kernel/softmax.hpp"
#include "eigenformer/kernel/top.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

/// Where a token is about to be chosen.
struct DecodeStep {
  std::span<const Id> tokens{};  ///< the prompt and what was generated so far
  Index generated = 0;           ///< how many of them were generated
  Index sequence = 0;            ///< its number
};

/// What a processor throws if it cannot go on with a sequence: that one ends as failed, with this text as the reason,
/// and the others go on. Anything else that a processor throws ends the whole call.
class SequenceError : public Error {
 public:
  using Error::Error;
};

namespace detail {

inline std::string failure_text(const DecodeStep& at, const std::string& reason) {
  return "[decode] sequence " + std::to_string(at.sequence) + ", step " + std::to_string(at.generated) + ": " + reason;
}
inline std::string without_tokens(const DecodeStep& at) { return failure_text(at, "every token is excluded"); }

/// Throws if the logits (V) are no distribution. NaN is no answer, and would pass for one.
template <class T>
void check_logits(const DecodeStep& at, const T* logits, Index vocabulary) {
  if (kernel::bounded_above(logits, vocabulary)) return;
  const T* const bad =
      std::find_if(logits, logits + vocabulary, [](T x) { return !(x < std::numeric_limits<T>::infinity()); });
  throw SequenceError(failure_text(at, "the logit of token " + std::to_string(bad - logits) + " is " +
                                           (std::isnan(*bad) ? "not a number" : "infinite")));
}
[[noreturn]] inline void fail_without_tokens(const DecodeStep& at) { throw SequenceError(without_tokens(at)); }

/// The ids of the largest logits, at most `count`, in the order of kernel::top(). There is at least one.
template <class T>
std::span<const Id> largest_logits(const DecodeStep& at, std::span<const T> logits, Index count,
                                   kernel::TopRoom& room) {
  const auto ids = kernel::top(logits.data(), static_cast<Index>(logits.size()), count, room);
  if (ids.empty()) fail_without_tokens(at);
  return ids;
}

template <class T>
void exclude_all_but(std::span<T> logits, Id token) {
  const T kept = logits[static_cast<std::size_t>(token)];
  std::fill(logits.begin(), logits.end(), -std::numeric_limits<T>::infinity());
  logits[static_cast<std::size_t>(token)] = kept;
}
template <class T>
void exclude(std::span<T> logits, Id token) {
  if (token >= 0 && static_cast<std::size_t>(token) < logits.size())
    logits[static_cast<std::size_t>(token)] = -std::numeric_limits<T>::infinity();
}

/// Ends of ranges, which are not in them.
inline constexpr double endless = std::numeric_limits<double>::infinity(),
                        after_one = 1 + std::numeric_limits<double>::epsilon();

/// What two ways to compute a probability may differ by.
template <class T>
inline constexpr double probability_error = 8 * static_cast<double>(std::numeric_limits<T>::epsilon());

}  // namespace detail

/// Logits / t: below 1 the probable become more so. 0 leaves the most probable token alone, of equals the lowest id.
class Temperature {
 public:
  explicit Temperature(double t) : t_(t) { require_range("decode", "temperature", t, 0, detail::endless); }

  template <class T>
  void operator()(const DecodeStep& at, std::span<T> logits) {
    if (t_ == 1) return;
    const Id best = detail::largest_logits(at, std::span<const T>(logits), 1, room_)[0];
    if (t_ < coldest) return detail::exclude_all_but(logits, best);
    auto row = kernel::row_map(logits.data(), static_cast<Index>(logits.size()));
    row = (row - logits[static_cast<std::size_t>(best)]) /
          static_cast<T>((std::min)(t_, hottest));  // of differences, as x/t may overflow
  }

 private:
  // Below, always the most probable token; above, all alike: no quotient of logits leaves the range of float.
  static constexpr double coldest = 1e-30, hottest = 1e30;

  double t_;
  kernel::TopRoom room_;
};

/// Keeps the k most probable tokens, of equals the lowest ids (Fan et al. 2018). 0, or k ≥ V, keeps all.
class TopK {
 public:
  explicit TopK(Index k) : k_(k) { require_range("decode", "top_k", k, 0, largest_index); }

  template <class T>
  void operator()(const DecodeStep& at, std::span<T> logits) {
    const auto width = static_cast<Index>(logits.size());
    if (k_ == 0 || k_ >= width) return;
    kernel::exclude_after(logits.data(), width,
                          detail::largest_logits(at, std::span<const T>(logits), k_, room_).back());
  }

 private:
  Index k_;
  kernel::TopRoom room_;
};

/// Keeps the most probable tokens as long as the mass of those before is less than p: the nucleus of Holtzman et al.
/// 2020, with the token that crosses p. 0 keeps one, 1 all.
class TopP {
 public:
  explicit TopP(double p) : p_(p) { require_range("decode", "top_p", p, 0, detail::after_one); }

  template <class T>
  void operator()(const DecodeStep& at, std::span<T> logits) {
    if (p_ == 1) return;
    const auto width = static_cast<Index>(logits.size());
    const double enough = p_ - detail::probability_error<T>,
                 total = kernel::softmax_sum(logits.data(), width, [](auto...) {}).log_sum_exp();
    for (Index some = 64;; some *= 4) {  // the nucleus is small, as a rule
      const auto best = detail::largest_logits(at, std::span<const T>(logits), some, room_);
      double mass = 0;
      std::size_t kept = 0;
      for (; kept < best.size() && (kept == 0 || mass < enough); ++kept)
        mass += std::exp(static_cast<double>(logits[static_cast<std::size_t>(best[kept])]) - total);
      if (mass < enough && static_cast<Index>(best.size()) == some) continue;
      return kernel::exclude_after(logits.data(), width, best[kept - 1]);
    }
  }

 private:
  double p_;
  kernel::TopRoom room_;
};

/// Keeps tokens of at least p times the probability of the most probable (Nguyen et al. 2024). 0 keeps all.
class MinP {
 public:
  explicit MinP(double p) : p_(p) { require_range("decode", "min_p", p, 0, detail::after_one); }

  template <class T>
  void operator()(const DecodeStep& at, std::span<T> logits) {
    if (p_ == 0) return;
    const T most =
        logits[static_cast<std::size_t>(detail::largest_logits(at, std::span<const T>(logits), 1, room_)[0])];
    const T least = static_cast<T>(std::log(p_) - detail::probability_error<T>);
    auto row = kernel::row_map(logits.data(), static_cast<Index>(logits.size()));
    row = (row - most < least).select(-std::numeric_limits<T>::infinity(), row);
  }

 private:
  double p_;
  kernel::TopRoom room_;
};

/// Every token that the text has, prompt included, becomes less probable (CTRL, Keskar et al. 2019): positive logits
/// are divided by the penalty, negative ones multiplied, once for each distinct token.
class RepetitionPenalty {
 public:
  explicit RepetitionPenalty(double penalty) : penalty_(penalty) {
    require_range("decode", "repetition_penalty", penalty, (std::numeric_limits<double>::min)(), detail::endless);
  }

  template <class T>
  void operator()(const DecodeStep& at, std::span<T> logits) {
    if (penalty_ == 1) return;
    if (seen_.size() < logits.size()) seen_.resize(logits.size(), 0);
    ++round_;
    for (const Id token : at.tokens) {
      const auto id = static_cast<std::size_t>(token);
      if (token < 0 || id >= logits.size() || std::exchange(seen_[id], round_) == round_) continue;
      const double logit = static_cast<double>(logits[id]);
      constexpr auto most = static_cast<double>((std::numeric_limits<T>::max)());
      if (std::isfinite(logit))
        logits[id] = static_cast<T>(std::clamp(logit > 0 ? logit / penalty_ : logit * penalty_, -most, most));
    }
  }

 private:
  double penalty_;
  std::vector<std::size_t> seen_;  // (V) the round in which a token was last met
  std::size_t round_ = 0;
};

/// Excludes what would make n tokens of the text, prompt included, a repetition of n tokens before. 0: nothing.
class NoRepeat {
 public:
  explicit NoRepeat(Index n) : n_(n) { require_range("decode", "no_repeat", n, 0, largest_index); }

  template <class T>
  void operator()(const DecodeStep& at, std::span<T> logits) const {
    if (n_ == 0 || static_cast<Index>(at.tokens.size()) < n_) return;
    const auto before = static_cast<std::size_t>(n_ - 1);
    const auto last = at.tokens.last(before);
    for (std::size_t i = 0; i + before < at.tokens.size(); ++i)
      if (std::equal(last.begin(), last.end(), at.tokens.begin() + static_cast<Index>(i)))
        detail::exclude(logits, at.tokens[i + before]);
  }

 private:
  Index n_;
};

/// Excludes tokens.
struct Suppress {
  std::vector<Id> tokens;

  template <class T>
  void operator()(const DecodeStep&, std::span<T> logits) const {
    for (const Id token : tokens) detail::exclude(logits, token);
  }
};

/// Excludes the tokens that end a text until so many are generated.
struct MinLength {
  Index tokens = 0;
  std::vector<Id> eos{};

  template <class T>
  void operator()(const DecodeStep& at, std::span<T> logits) const {
    if (at.generated >= tokens) return;
    for (const Id id : eos) detail::exclude(logits, id);
  }
};

/// What can be called with logits of float, of double, or of both.
template <class F>
concept ProcessorOfLogits =
    std::invocable<F&, const DecodeStep&, std::span<float>> || std::invocable<F&, const DecodeStep&, std::span<double>>;

/// Any processor, for logits of any type that it takes. Copies have their own notes.
class Processor {
 public:
  template <ProcessorOfLogits F>
  Processor(F f) requires(!std::same_as<F, Processor>) {
    if constexpr (std::invocable<F&, const DecodeStep&, std::span<float>>) on_floats_ = f;
    if constexpr (std::invocable<F&, const DecodeStep&, std::span<double>>) on_doubles_ = f;
  }

  template <class T>
  void operator()(const DecodeStep& at, std::span<T> logits) const {
    const auto call = [&](const auto& f) {
      ensure(static_cast<bool>(f), "decode", "a processor does not take logits of the model's type");
      f(at, logits);
    };
    if constexpr (std::same_as<T, float>) call(on_floats_);
    else call(on_doubles_);
  }

 private:
  std::function<void(const DecodeStep&, std::span<float>)> on_floats_;
  std::function<void(const DecodeStep&, std::span<double>)> on_doubles_;
};

}  // namespace eigenformer
