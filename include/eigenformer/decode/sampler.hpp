// The choice of a token: the most probable, or one drawn.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "eigenformer/core/random.hpp"
#include "eigenformer/decode/processors.hpp"
#include "eigenformer/decode/rules.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

/// How tokens are drawn; the filters apply in this order. Temperature 0 is no drawing at all.
struct Sampling {
  double temperature = 1;  ///< see Temperature
  Index top_k = 0;         ///< see TopK
  double top_p = 1;        ///< see TopP
  double min_p = 0;        ///< see MinP
  std::uint64_t seed = 0;
};

/// In [0, 1), a multiple of 2⁻⁵³, for one step of one sequence: whatever else is drawn, and in whatever order.
inline double uniform_at(std::uint64_t seed, Index sequence, Index step) {
  const auto low = [](Index x) { return static_cast<std::uint32_t>(x); };
  const auto high = [](Index x) { return static_cast<std::uint32_t>(static_cast<std::uint64_t>(x) >> 32); };
  constexpr std::uint32_t sampling = 0x5A3D1E00;  // neither a step of training nor initialisation
  const PhiloxBlock bits = philox({low(step), low(sequence), high(sequence), sampling ^ high(step)}, seed);
  return static_cast<double>(std::uint64_t{bits[0] >> 5} << 26 | bits[1] >> 6) * 0x1p-53;
}

/// The token at `uniform` of [0, 1), on which every token has its probability's share, in the order of ids. Overwrites
/// the logits (V), which have been checked.
template <class T>
Id draw(const DecodeStep& at, std::span<T> logits, double uniform) {
  const auto width = static_cast<Index>(logits.size());
  T* const weights = logits.data();
  const T total_weight =
      kernel::softmax_sum(weights, width, [&](Index j, auto n, const auto& e) EIGENFORMER_INLINE_LAMBDA {
        kernel::store(weights + j, e, n);
      }).sum;
  if (!(total_weight > 0)) detail::fail_without_tokens(at);
  constexpr Index block = 256;  // sums of blocks first, then one by one: adding is a chain
  const auto sum_of = [&](Index begin) {
    return static_cast<double>(kernel::sum_vectors<T>(
        (std::min)(block, width - begin), [&](Index j, auto n) { return kernel::load(weights + begin + j, n); }));
  };
  double total = 0;
  for (Index begin = 0; begin < width; begin += block) total += sum_of(begin);
  const double goal = uniform * total;
  double passed = 0;
  Index j = 0;
  for (; j + block < width; j += block) {
    const double after = passed + sum_of(j);
    if (after > goal) break;
    passed = after;
  }
  Index token = -1;
  for (; j < width; ++j) {
    if (weights[j] == 0) continue;
    token = j;
    passed += static_cast<double>(weights[j]);
    if (passed > goal) break;
  }
  if (token < 0)  // the goal is the total, by rounding
    for (token = width - 1; weights[token] == 0;) --token;
  return static_cast<Id>(token);
}

namespace detail {

struct Choice {
  Id token = 0;
  double log_probability = 0;  // under the model, before any rule and filter; if asked for
};

/// Chooses the next token of one sequence after another. Takes notes: one object for each thread.
template <class T>
class Sampler {
 public:
  Sampler(const RuleScope& scope, const std::optional<Sampling>& sampling, bool log_probabilities)
      : rules_(scope), sampling_(sampling.value_or(Sampling{.temperature = 0})), log_probabilities_(log_probabilities),
        temperature_(sampling_.temperature), top_k_(sampling_.top_k), top_p_(sampling_.top_p), min_p_(sampling_.min_p) {
  }

  /// From logits (V).
  Choice operator()(const DecodeStep& at, std::span<const T> logits) {
    const auto width = static_cast<Index>(logits.size());
    check_logits(at, logits.data(), width);
    Choice choice;
    const bool drawn = sampling_.temperature > 0;
    if (const auto token = rules_.forced(at)) {
      choice.token = *token;
    } else if (drawn || rules_.needed()) {
      row_.assign(logits.begin(), logits.end());
      const std::span<T> row(row_);
      rules_(at, row);
      if (drawn) {
        temperature_(at, row);
        top_k_(at, row);
        top_p_(at, row);
        min_p_(at, row);
        choice.token = draw(at, row, uniform_at(sampling_.seed, at.sequence, at.generated));
      } else {
        choice.token = largest_logits(at, std::span<const T>(row), 1, room_)[0];
      }
    } else {
      choice.token = largest_logits(at, logits, 1, room_)[0];
    }
    if (log_probabilities_) {
      const auto logit =
          static_cast<double>(logits[static_cast<std::size_t>(choice.token)]);  // −∞ if it is forced against the model
      choice.log_probability =
          std::isinf(logit) ? logit : logit - kernel::softmax_sum(logits.data(), width, [](auto...) {}).log_sum_exp();
    }
    return choice;
  }

 private:
  RuleSet rules_;
  Sampling sampling_;
  bool log_probabilities_;
  Temperature temperature_;
  TopK top_k_;
  TopP top_p_;
  MinP min_p_;
  std::vector<T> row_;
  kernel::TopRoom room_;
};

}  // namespace detail
}  // namespace eigenformer
