// How a model comes to know texts: prompts in pieces, then one token after another.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "eigenformer/core/context.hpp"
#include "eigenformer/core/settings.hpp"
#include "eigenformer/model/next_tokens.hpp"

namespace eigenformer::inline EIGENFORMER_ABI::detail {

/// Gives a model what it has not read of some texts yet. The memory that it needs is kept from step to step.
class Reader {
 public:
  /// `chunk` tokens per pass of each text.
  explicit Reader(Index chunk) : chunk_(chunk) { require_range("decode", "chunk", chunk, 1, largest_index); }

  /// → logits (sequences, V) of the token after each text, in the context's arena. text(i) is a span of ids, longer
  /// than what the state knows of its sequence. Long ones begin first, so that all end with the last pass, the only one
  /// to need logits.
  template <class Model>
  ConstView<typename Model::T, 2> operator()(Context& ctx, const Model& model, typename Model::State& state,
                                             auto&& text) {
    const Index sequences = state.sequences();
    Index longest = 0;
    for (Index i = 0; i < sequences; ++i) longest = (std::max)(longest, size(text(i)) - state.length(i));
    for (Index later = (longest - 1) / chunk_ * chunk_; later > 0; later -= chunk_) {
      const auto pass = ctx.scratch();
      model.hidden(ctx, tokens_before(state, text, later), state);
    }
    const auto logits = model.next_logits(ctx, tokens_before(state, text, 0), state);
    ensure(logits.extent(0) == sequences && logits.width() > 0, "decode", "logits ", logits.shape(), " for ", sequences,
           " sequences");
    return logits;
  }

 private:
  static Index size(std::span<const Id> ids) { return static_cast<Index>(ids.size()); }

  /// What is unread of all texts, but for the last `later` tokens of each.
  NextTokens tokens_before(const auto& state, auto&& text, Index later) {
    ids_.clear();
    counts_.clear();
    for (Index i = 0; i < state.sequences(); ++i) {
      const std::span<const Id> unread =
          std::span<const Id>(text(i)).subspan(static_cast<std::size_t>(state.length(i)));
      const auto now = (std::max)(size(unread) - later, Index{0});
      ids_.insert(ids_.end(), unread.begin(), unread.begin() + now);
      counts_.push_back(now);
    }
    return {ids_, counts_};
  }

  Index chunk_;
  std::vector<Id> ids_;
  std::vector<Index> counts_;
};

/// So many tokens a text are provided for at once; beyond, memory grows as it is needed.
inline constexpr Index expected_tokens = 1024;

/// `bos`, if there is one, and the prompt, for each.
inline std::vector<std::vector<Id>> texts_of(const std::vector<std::vector<Id>>& prompts, const std::optional<Id>& bos,
                                             Index max_tokens) {
  std::vector<std::vector<Id>> texts(prompts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    ensure(bos || !prompts[i].empty(), "decode", "prompt ", i, " is empty, and there is no bos token");
    texts[i].reserve(prompts[i].size() + 1 + static_cast<std::size_t>((std::min)(max_tokens, expected_tokens)));
    if (bos) texts[i].push_back(*bos);
    texts[i].insert(texts[i].end(), prompts[i].begin(), prompts[i].end());
  }
  return texts;
}

/// Throws if the model has not got positions for so many tokens more: the last one needs none.
template <class Model>
void check_room(const Model& model, const std::vector<std::vector<Id>>& texts, Index max_tokens) {
  const auto validate = [&](const auto& position) {
    if constexpr (requires { position.max_positions(); })
      for (std::size_t i = 0; i < texts.size(); ++i)
        ensure(max_tokens - 1 <= position.max_positions() - static_cast<Index>(texts[i].size()), "decode", "text ", i,
               ": ", texts[i].size(), " tokens and ", max_tokens, " more are too many for the model's ",
               position.max_positions(), " positions");
  };
  if constexpr (requires { model.target_position; }) validate(model.target_position);
  else if constexpr (requires { model.position; }) validate(model.position);
}

/// The state's memory for texts of at most so many tokens more.
template <class State>
void reserve(State& state, const std::vector<std::vector<Id>>& texts, Index max_tokens) {
  std::size_t longest = 0;
  for (const auto& text : texts) longest = (std::max)(longest, text.size());
  state.reserve(static_cast<Index>(longest) + (std::min)(max_tokens, expected_tokens));
}

}  // namespace eigenformer::detail
