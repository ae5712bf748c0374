// Which tokens a text may have: what generation and beam search have in common.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "eigenformer/core/context.hpp"
#include "eigenformer/decode/processors.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

/// A token that comes at a step, whatever its logit.
struct ForcedToken {
  Index step = 0;  ///< tokens generated before
  Id token = 0;
};

/// Applied in this order. A forced token, or one of a prefix, is subject to none of them; a prefix comes before a
/// forced token. The order is that of transformers 5 (repetition penalty, no repeated n-grams, exclusions), but for
/// processors of one's own, which come last there and first here, and suppressed tokens, which there can take a forced
/// one away.
struct TokenRules {
  std::vector<Processor> processors{};  ///< of your own; with any, sequences are handled one after another, in order
  double repetition_penalty = 1;        ///< see RepetitionPenalty
  Index no_repeat = 0;                  ///< see NoRepeat
  std::vector<Id> suppressed{};         ///< never generated
  std::vector<ForcedToken> forced{};    ///< in every sequence, at most one a step; they count as generated
};

namespace detail {

/// GenerateConfig, BeamConfig.
template <class Config>
concept DecodingConfig = requires(const Config& config) {
  config.rules;
  config.prefixes;
};

/// What the rules are about, next to themselves: settings of a GenerateConfig or BeamConfig, which must outlive this.
struct RuleScope {
  const TokenRules& rules;
  const std::vector<Id>& eos;
  std::optional<Id> bos;
  Index min_tokens, max_tokens;
  const std::vector<std::vector<Id>>& prefixes;  // none, or one for each sequence
  Index first_sequence = 0;                      // the number of the first

  template <DecodingConfig Config>
  explicit RuleScope(const Config& config)
      : rules(config.rules), eos(config.eos), bos(config.bos), min_tokens(config.min_tokens),
        max_tokens(config.max_tokens), prefixes(config.prefixes) {
    if constexpr (requires { config.first_sequence; }) first_sequence = config.first_sequence;
  }

  /// The forced token of a step; null: none.
  const ForcedToken* forced(Index step) const {
    const auto found = std::find_if(rules.forced.begin(), rules.forced.end(),
                                    [=](const ForcedToken& each) { return each.step == step; });
    return found == rules.forced.end() ? nullptr : &*found;
  }

  /// What can be known before the model has run.
  void validate(std::size_t sequences) const {
    ensure(!bos || *bos >= 0, "decode", "there is no token ", bos.value_or(0));
    require_range("decode", "max_tokens", max_tokens, 0, largest_index);
    require_range("decode", "min_tokens", min_tokens, 0, max_tokens);
    ensure(prefixes.empty() || prefixes.size() == sequences, "decode", prefixes.size(), " prefixes for ", sequences,
           " sequences");
    for_ids([](Id id) { ensure(id >= 0, "decode", "there is no token ", id); });
    for (const ForcedToken& token : rules.forced) {
      require_range("decode", "step", token.step, 0, largest_index);
      ensure(forced(token.step) == &token, "decode", "two tokens forced at step ", token.step);
    }
  }
  /// What depends on the vocabulary.
  void check_vocabulary(Index vocabulary) const {
    for_ids([=](Id id) { ensure(id < vocabulary, "decode", "token ", id, " is not in a vocabulary of ", vocabulary); });
  }

 private:
  void for_ids(auto&& f) const {
    for (const Id id : eos) f(id);
    for (const Id id : rules.suppressed) f(id);
    for (const ForcedToken& token : rules.forced) f(token.token);
    for (const auto& prefix : prefixes)
      for (const Id id : prefix) f(id);
  }
};

/// The rules as one processor. Some take notes: one object for each thread.
class RuleSet {
 public:
  explicit RuleSet(const RuleScope& scope)
      : scope_(scope), own_(scope.rules.processors), penalty_(scope.rules.repetition_penalty),
        no_repeat_(scope.rules.no_repeat), suppress_{scope.rules.suppressed}, min_length_{scope.min_tokens, scope.eos} {
    const TokenRules& rules = scope.rules;
    needed_ = !own_.empty() || rules.repetition_penalty != 1 || rules.no_repeat != 0 || !rules.suppressed.empty() ||
              (scope.min_tokens > 0 && !scope.eos.empty());
  }

  /// The token of this step, if it is given. Then nothing else applies.
  std::optional<Id> prefix(const DecodeStep& at) const {
    if (scope_.prefixes.empty()) return {};
    const auto& prefix = scope_.prefixes[static_cast<std::size_t>(at.sequence - scope_.first_sequence)];
    return at.generated < static_cast<Index>(prefix.size())
               ? std::optional(prefix[static_cast<std::size_t>(at.generated)])
               : std::nullopt;
  }
  std::optional<Id> forced(const DecodeStep& at) const {
    if (const auto token = prefix(at)) return token;
    const ForcedToken* const token = scope_.forced(at.generated);
    return token ? std::optional(token->token) : std::nullopt;
  }

  /// Whether there is anything to do for the others.
  bool needed() const { return needed_; }

  /// On logits that have been checked.
  template <class T>
  void operator()(const DecodeStep& at, std::span<T> logits) {
    for (const Processor& processor : own_) processor(at, logits);
    if (!own_.empty()) check_logits(at, std::span<const T>(logits).data(), static_cast<Index>(logits.size()));
    penalty_(at, logits);
    no_repeat_(at, logits);
    suppress_(at, logits);
    min_length_(at, logits);
  }

 private:
  RuleScope scope_;
  std::vector<Processor> own_;
  RepetitionPenalty penalty_;
  NoRepeat no_repeat_;
  Suppress suppress_;
  MinLength min_length_;
  bool needed_;
};

/// f(i, slot) for all rows, on all threads unless there are processors of the user, who need not know of threads.
template <class F>
void for_rows(const Threads& threads, const TokenRules& rules, Index rows, Index width, F&& f) {
  const Threads alone;
  (rules.processors.empty() ? threads : alone)
      .parallel_for(rows, kernel::row_grain(width), [&](Index begin, Index end, int slot) {
        for (Index i = begin; i < end; ++i) f(i, slot);
      });
}

}  // namespace detail
}  // namespace eigenformer
