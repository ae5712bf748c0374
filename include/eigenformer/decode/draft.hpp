// Speculative decoding: tokens that a cheap draft proposes are read by the model in one pass, and stand where the model
// chooses the same (Leviathan et al. 2023, Chen et al. 2023). A choice depends on the text, the seed and the place
// alone, and logits have the same bits in one pass as in several: so the text is the one without a draft, drawn or not.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "eigenformer/core/context.hpp"
#include "eigenformer/core/settings.hpp"
#include "eigenformer/decode/decoding.hpp"
#include "eigenformer/decode/processors.hpp"
#include "eigenformer/decode/reader.hpp"
#include "eigenformer/decode/rules.hpp"
#include "eigenformer/decode/sampler.hpp"
#include "eigenformer/decode/sequences.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

/// What came after the end of the text when it came before: the longest such end counts, of equals the latest (prompt
/// look-up, Saxena 2023). For texts that repeat their prompt or themselves; it costs next to nothing.
struct LookUp {
  Index longest = 3;   ///< no longer ends are looked up
  Index shortest = 2;  ///< no shorter ends count: one token comes often, and is followed by many others

  void validate() const {
    require_range("draft", "longest", longest, 1, largest_index);
    require_range("draft", "shortest", shortest, 1, longest);
  }

  void operator()(const DecodeStep& at, Index most, std::vector<Id>& proposed) const {
    const auto token = [&](Index i) { return at.tokens[static_cast<std::size_t>(i)]; };
    const auto size = static_cast<Index>(at.tokens.size());
    Index from = 0, length = 0;  // the match ends before `from`
    for (Index end = size - 1; end > 0 && length < longest; --end) {
      Index n = 0;
      while (n < (std::min)(longest, end) && token(end - 1 - n) == token(size - 1 - n)) ++n;
      if (n > length) from = end, length = n;
    }
    if (length < shortest) return;
    const Index period = size - from;  // what runs into the end of the text goes on as it began
    for (Index i = 0; i < most; ++i) proposed.push_back(token(from + i % period));
  }
};

namespace detail {

/// What a draft is asked for: tokens that may come next in some texts.
struct DraftCall {
  const RuleScope& scope;  // without processors of the user
  const std::optional<Sampling>& sampling;
  Index vocabulary;                      // V; 0: not known yet, and nothing is wanted
  Index chunk, tokens;                   // as in GenerateConfig
  std::span<const DecodeStep> texts;     // those that still go on
  std::span<const Index> most;           // tokens wanted of each
  std::span<std::vector<Id>> proposals;  // of each, still empty
};

/// What a smaller model would choose, by the same rules and the same random numbers.
template <class Model>
class ModelDraft {
 public:
  explicit ModelDraft(const Model& model) : model_(&model) {}

  void operator()(Context& ctx, const DraftCall& call) {
    if (!state_) begin(ctx, call);
    follow(call);
    for (Index n = 0;; ++n) {
      asked_.clear();
      for (std::size_t i = 0; i < texts_.size(); ++i) {
        const bool wanted = n < call.most[i] && static_cast<Index>(call.proposals[i].size()) == n;
        if (wanted) asked_.push_back(i);
        wanted_[i] = wanted ? 1 : 0;
      }
      if (asked_.empty()) return;
      const auto memory = ctx.scratch();
      const auto logits = (*reader_)(
          ctx, *model_, *state_, [&](Index i) -> const auto& { return texts_[static_cast<std::size_t>(i)]; }, wanted_);
      ensure(logits.width() == call.vocabulary, "draft", "a vocabulary of ", logits.width(), ", but the model's is ",
             call.vocabulary);
      for_rows(ctx.threads, call.scope.rules, logits.rows(), logits.width(), [&](Index row, int slot) {
        const std::size_t i = asked_[static_cast<std::size_t>(row)];
        const DecodeStep at{texts_[i], call.texts[i].generated + n, call.texts[i].sequence};
        try {
          const Id token = samplers_[static_cast<std::size_t>(slot)](
                               at, std::span(logits.row(row), static_cast<std::size_t>(logits.width())))
                               .token;
          texts_[i].push_back(token);
          call.proposals[i].push_back(token);
        } catch (const SequenceError&) {  // then it proposes no more
        }
      });
    }
  }

 private:
  using T = typename Model::T;

  void begin(Context& ctx, const DraftCall& call) {
    const std::size_t count = call.texts.size();
    std::size_t longest = 0;
    for (std::size_t i = 0; i < count; ++i) {
      numbers_.push_back(call.texts[i].sequence);
      check_room("draft", *model_, i, call.texts[i].tokens.size(), call.scope.max_tokens);
      longest = (std::max)(longest, call.texts[i].tokens.size());
    }
    texts_.resize(count);
    const auto expected = static_cast<std::size_t>((std::min)(call.scope.max_tokens, expected_tokens));
    for (auto& text : texts_) text.reserve(longest + expected);
    samplers_ = std::vector<Sampler<T>>(static_cast<std::size_t>(ctx.threads.count()),
                                        Sampler<T>(call.scope, call.sampling, false));
    reader_.emplace(call.chunk);
    state_.emplace(model_->start(static_cast<Index>(count)));
    state_->reserve(static_cast<Index>(longest + expected), call.tokens);
  }

  /// Forgets the sequences that have ended, and what the others did not go on with.
  void follow(const DraftCall& call) {
    const std::size_t count = call.texts.size();
    if (count < numbers_.size()) {
      going_.clear();
      for (std::size_t i = 0; i < count; ++i) {
        const auto from = std::find(numbers_.begin(), numbers_.end(), call.texts[i].sequence) - numbers_.begin();
        going_.push_back(from);
        std::swap(texts_[i], texts_[static_cast<std::size_t>(from)]);
        std::swap(numbers_[i], numbers_[static_cast<std::size_t>(from)]);
      }
      texts_.resize(count);
      numbers_.resize(count);
      state_->select(going_);
    }
    wanted_.resize(count);
    lengths_.clear();
    for (std::size_t i = 0; i < count; ++i) {
      const auto now = call.texts[i].tokens;
      auto& text = texts_[i];
      const auto same = std::mismatch(text.begin(), text.end(), now.begin(), now.end()).second - now.begin();
      text.resize(static_cast<std::size_t>(same));
      text.insert(text.end(), now.begin() + same, now.end());
      lengths_.push_back((std::min)(
          {static_cast<Index>(same), static_cast<Index>(now.size()) - 1, state_->length(static_cast<Index>(i))}));
    }
    state_->truncate(lengths_);
  }

  const Model* model_;
  std::optional<typename Model::State> state_;
  std::optional<Reader> reader_;
  std::vector<Sampler<T>> samplers_;
  std::vector<Index> numbers_;          // of the sequences of the state
  std::vector<std::vector<Id>> texts_;  // of these: as they were, and what was proposed then
  std::vector<std::size_t> asked_;      // memory for a call, as all below
  std::vector<Index> wanted_, lengths_, going_;
};

}  // namespace detail

/// What can be called with a text, the most tokens that are wanted, and a vector to append them to.
template <class F>
concept DraftOfText = requires(F& f, const DecodeStep& at, Index most, std::vector<Id>& proposed) {
  f(at, most, proposed);
};

/// What proposes tokens: a smaller decoder-only model of the same vocabulary, `&model`, which must outlive this;
/// LookUp; or anything like it. Copies have their own notes.
class Draft {
 public:
  template <class Model>
  Draft(const Model* model) requires detail::decodes_only<Model> {
    ensure(model != nullptr, "draft", "there is no model");
    propose_ = detail::ModelDraft<Model>(*model);
  }
  template <DraftOfText F>
  Draft(F f) {
    if constexpr (requires { f.validate(); }) f.validate();
    propose_ = [own = std::move(f)](Context&, const detail::DraftCall& call) mutable {
      for (std::size_t i = 0; i < call.texts.size(); ++i)
        if (call.most[i] > 0) own(call.texts[i], call.most[i], call.proposals[i]);
    };
  }

  void operator()(Context& ctx, const detail::DraftCall& call) const { propose_(ctx, call); }

 private:
  std::function<void(Context&, const detail::DraftCall&)> propose_;
};

}  // namespace eigenformer
