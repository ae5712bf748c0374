// How a model comes to know texts: prompts in pieces, then one token after another.
#pragma once

#include <algorithm>
#include <cstddef>
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
  /// to need logits. Or those after the last wanted[i] tokens of each, which the state must not know.
  template <class Model>
  ConstView<typename Model::T, 2> operator()(Context& ctx, const Model& model, typename Model::State& state,
                                             auto&& text, std::span<const Index> wanted = {}) {
    const Index sequences = state.sequences();
    Index longest = 0;
    for (Index i = 0; i < sequences; ++i) longest = (std::max)(longest, size(text(i)) - state.length(i));
    Index piece = chunk_;
    for (const Index each : wanted) piece = (std::max)(piece, each);
    for (Index later = (longest - 1) / piece * piece; later > 0; later -= piece) {
      const auto pass = ctx.scratch();
      model.hidden(ctx, tokens_before(state, text, later), state);
    }
    NextTokens tokens = tokens_before(state, text, 0);
    tokens.wanted = wanted;
    const auto logits = model.next_logits(ctx, tokens, state);
    ensure(logits.extent(0) == tokens.all_wanted() && logits.width() > 0, "decode", "logits ", logits.shape(), " for ",
           sequences, " sequences, of which ", tokens.all_wanted(), " are wanted");
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

}  // namespace eigenformer::detail
