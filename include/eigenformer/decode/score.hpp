// How probable given texts are.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "eigenformer/core/context.hpp"
#include "eigenformer/kernel/row.hpp"
#include "eigenformer/kernel/softmax.hpp"

namespace eigenformer {

struct ScoreConfig {
  std::optional<Id> begin{};  ///< comes before every text; encoder–decoders need it
  Index rows = 128;           ///< tokens whose logits (rows, V) are held at a time
};

struct Score {
  std::vector<double> log_probabilities;  ///< of each token given those before it; without a begin token the first has none
  double sum = 0;
  double mean = 0;                        ///< of no tokens: 0
};

namespace detail {

/// What a model reads to score texts: (begin,) and all tokens but the last, padded at the end.
struct ScoreInput {
  Tensor<Id, 2> ids;         // (B, N)
  Tensor<Index, 1> lengths;  // (B), at least 1: what is read of an empty text is not used
  Index first = 0;           // the token that the first row of each text predicts

  ScoreInput(const Context& ctx, const std::vector<std::vector<Id>>& texts, const ScoreConfig& config) : first(config.begin ? 0 : 1) {
    require(!ctx.tape && !ctx.random, "score", "scoring is neither recorded nor with dropout");
    require(config.rows > 0, "score", "logits of ", config.rows, " tokens at a time");
    std::size_t longest = 1;
    for (const auto& text : texts) longest = (std::max)(longest, text.size() - static_cast<std::size_t>(text.empty() ? 0 : first));
    ids = Tensor<Id, 2>(Shape{static_cast<Index>(texts.size()), static_cast<Index>(longest)});
    lengths = Tensor<Index, 1>(Shape{static_cast<Index>(texts.size())});
    for (std::size_t b = 0; b < texts.size(); ++b) {
      const auto row = static_cast<Index>(b);
      Id* to = &ids(row, 0);
      if (config.begin) *to++ = *config.begin;
      if (!texts[b].empty()) std::copy(texts[b].begin(), texts[b].end() - 1, to);
      lengths(row) = (std::max)(count(texts[b]), Index{1});
    }
  }
  /// How many tokens are predicted.
  Index count(const std::vector<Id>& text) const { return (std::max)(static_cast<Index>(text.size()) - first, Index{0}); }
};

/// Hidden states (B, N, D) → scores. Logits of a few rows at a time: those of all tokens are never there at once.
template <class Model>
std::vector<Score> scores_of(Context& ctx, const Model& model, ConstView<typename Model::T, 3> hidden, const std::vector<std::vector<Id>>& texts,
                             const ScoreInput& input, const ScoreConfig& config) {
  using T = typename Model::T;
  struct Row {
    std::size_t text;
    Index place;  // among those of the text
  };
  std::vector<Row> rows;  // that predict something: what predicts padding, or nothing, is left out
  std::vector<Score> scores(texts.size());
  for (std::size_t b = 0; b < texts.size(); ++b) {
    scores[b].log_probabilities.resize(static_cast<std::size_t>(input.count(texts[b])));
    for (Index place = 0; place < input.count(texts[b]); ++place) rows.push_back({b, place});
  }
  const Index total = static_cast<Index>(rows.size()), width = hidden.width();
  for (Index begin = 0; begin < total; begin += config.rows) {
    const auto memory = ctx.scratch();
    const Row* const part = rows.data() + begin;
    const Index count = (std::min)(config.rows, total - begin);
    const View<T, 3> x = ctx.arena.allocate<T>(Shape{Index{1}, count, width});
    for (Index i = 0; i < count; ++i) std::copy_n(&hidden(static_cast<Index>(part[i].text), part[i].place, 0), width, &x(0, i, 0));
    const auto logits = model.logits(ctx, x).flat();  // (count, V)
    const Index vocabulary = logits.width();
    ctx.threads.parallel_for(count, kernel::row_grain(vocabulary), [&](Index from, Index to) {
      for (Index i = from; i < to; ++i) {
        const auto [b, place] = part[i];
        const Id token = texts[b][static_cast<std::size_t>(input.first + place)];
        require(token >= 0 && token < vocabulary, "score", "token ", token, " of text ", b, " is not in a vocabulary of ", vocabulary);
        const double value = static_cast<double>(logits(i, token)) - kernel::softmax_sum(logits.row(i), vocabulary, [](auto...) {}).log_sum_exp();
        require(!std::isnan(value), "score", "the logits of token ", input.first + place, " of text ", b, " are no distribution");
        scores[b].log_probabilities[static_cast<std::size_t>(place)] = value;
      }
    });
  }
  for (Score& score : scores) {
    score.sum = std::accumulate(score.log_probabilities.begin(), score.log_probabilities.end(), 0.0);
    if (!score.log_probabilities.empty()) score.mean = score.sum / static_cast<double>(score.log_probabilities.size());
  }
  return scores;
}

}  // namespace detail

/// Of texts by a decoder-only model, in one pass over all of them.
template <class Model>
std::vector<Score> score(Context& ctx, const Model& model, const std::vector<std::vector<Id>>& texts, const ScoreConfig& config = {}) {
  const detail::ScoreInput input(ctx, texts, config);
  if (texts.empty()) return {};
  const auto memory = ctx.scratch();
  const auto hidden = model.hidden(ctx, {.ids = input.ids, .lengths = input.lengths});  // (B, N, D)
  return detail::scores_of(ctx, model, hidden, texts, input, config);
}

/// Of targets, one for each source (B, M) of a length (B; null: all M), by an encoder–decoder.
template <class Model>
std::vector<Score> score(Context& ctx, const Model& model, ConstView<Id, 2> source, ConstView<Index, 1> lengths, const std::vector<std::vector<Id>>& targets,
                         const ScoreConfig& config) {
  require(config.begin.has_value(), "score", "an encoder–decoder needs a begin token");
  require(source.extent(0) == static_cast<Index>(targets.size()), "score", targets.size(), " targets for ", source.extent(0), " sources");
  const detail::ScoreInput input(ctx, targets, config);
  if (targets.empty()) return {};
  const auto memory = ctx.scratch();
  const auto hidden = model.decode(ctx, input.ids, model.encode(ctx, source, lengths), lengths, input.lengths);  // (B, N, D)
  return detail::scores_of(ctx, model, hidden, targets, input, config);
}

}  // namespace eigenformer
