// How probable given texts are.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "eigenformer/core/context.hpp"
#include "eigenformer/core/settings.hpp"
#include "eigenformer/decode/sequences.hpp"
#include "eigenformer/kernel/row.hpp"
#include "eigenformer/kernel/softmax.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

struct ScoreConfig {
  std::optional<Id> bos{};  ///< comes before every text; encoder–decoders need it
  Index rows = 128;         ///< tokens whose logits (rows, V) are held at a time
};

struct Score {
  std::vector<double>
      log_probabilities;  ///< of each token given those before it; without a bos token the first has none
  double sum = 0;
  double mean = 0;        ///< of no tokens: 0
  std::string failure{};  ///< why the text has no score, if so: the log-probabilities end before, sum and mean are −∞
};

namespace detail {

/// What a model reads to score texts: (bos,) and all tokens but the last, padded at the end.
struct ScoreInput : PaddedIds {
  Index first;  // the token that the first row of each text predicts

  ScoreInput(const Context& ctx, const std::vector<std::vector<Id>>& texts, const ScoreConfig& config)
      : PaddedIds(read_of(texts, config)), first(config.bos ? 0 : 1) {
    ensure(!ctx.tape && !ctx.random, "score", "scoring is neither recorded nor with dropout");
    require_range("score", "rows", config.rows, 1, largest_index);
    ensure(!config.bos || *config.bos >= 0, "score", "there is no token ", config.bos.value_or(0), " to begin with");
  }
  /// How many tokens are predicted.
  Index count(const std::vector<Id>& text) const {
    return (std::max)(static_cast<Index>(text.size()) - first, Index{0});
  }

 private:
  static std::vector<std::vector<Id>> read_of(std::vector<std::vector<Id>> texts, const ScoreConfig& config) {
    for (auto& text : texts) {
      if (!text.empty()) text.pop_back();
      if (config.bos) text.insert(text.begin(), *config.bos);
      if (text.empty()) text.push_back(0);  // some token: what is said of it is not used
    }
    return texts;
  }
};

/// Hidden states (B, N, D) → scores. Logits of a few rows at a time: those of all tokens are never there at once.
template <class Model>
std::vector<Score> scores_of(Context& ctx, const Model& model, ConstView<typename Model::T, 3> hidden,
                             const std::vector<std::vector<Id>>& texts, const ScoreInput& input,
                             const ScoreConfig& config) {
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
  for (Index begin = 0, count = 0; begin < total; begin += count) {
    const auto memory = ctx.scratch();
    const Row* const part = rows.data() + begin;
    count = (std::min)(config.rows, total - begin);
    const View<T, 3> x = ctx.arena.allocate<T>(Shape{Index{1}, count, width});
    for (Index i = 0; i < count; ++i)
      std::copy_n(&hidden(static_cast<Index>(part[i].text), part[i].place, 0), width, &x(0, i, 0));
    const auto logits = model.logits(ctx, x).flat();  // (count, V)
    const Index vocabulary = logits.width();
    ctx.threads.parallel_for(count, kernel::row_grain(vocabulary), [&](Index from, Index to) {
      for (Index i = from; i < to; ++i) {
        const auto [b, place] = part[i];
        const Id token = texts[b][static_cast<std::size_t>(input.first + place)];
        ensure(token >= 0 && token < vocabulary, "score", "token ", token, " of text ", b,
               " is not in a vocabulary of ", vocabulary);
        scores[b].log_probabilities[static_cast<std::size_t>(place)] =
            static_cast<double>(logits(i, token)) -
            kernel::softmax_sum(logits.row(i), vocabulary, [](auto...) {}).log_sum_exp();
      }
    });
  }
  for (std::size_t b = 0; b < texts.size(); ++b) {
    Score& score = scores[b];
    auto& values = score.log_probabilities;
    const auto bad = std::find_if(values.begin(), values.end(), [](double value) { return std::isnan(value); });
    if (bad == values.end()) {
      score.sum = std::accumulate(values.begin(), values.end(), 0.0);
      if (!values.empty()) score.mean = score.sum / static_cast<double>(values.size());
    } else {
      score.failure = "[score] the logits of token " + std::to_string(input.first + (bad - values.begin())) +
                      " of text " + std::to_string(b) + " are no distribution";
      values.erase(bad, values.end());
      score.sum = score.mean = -std::numeric_limits<double>::infinity();
    }
  }
  return scores;
}

}  // namespace detail

/// Of texts, or a single one, by a decoder-only model, in one pass over all of them. A text for which the model has no
/// numbers has no score, but the reason; the others have the one that they have alone.
template <class Model>
std::vector<Score> score(Context& ctx, const Model& model, const Sequences& texts, const ScoreConfig& config = {}) {
  const detail::ScoreInput input(ctx, texts.ids, config);
  if (texts.ids.empty()) return {};
  const auto memory = ctx.scratch();
  const auto hidden = model.hidden(ctx, {.ids = input.ids, .lengths = input.lengths});  // (B, N, D)
  return detail::scores_of(ctx, model, hidden, texts.ids, input, config);
}

/// Of targets, one for each source (B, M) of a length (B; null: all M), by an encoder–decoder.
template <class Model>
std::vector<Score> score(Context& ctx, const Model& model, ConstView<Id, 2> source, ConstView<Index, 1> lengths,
                         const Sequences& targets, const ScoreConfig& config) {
  ensure(config.bos.has_value(), "score", "an encoder–decoder needs a bos token");
  ensure(source.given(), "score", "no source is given");
  ensure(source.extent(0) == static_cast<Index>(targets.ids.size()), "score", targets.ids.size(), " targets for ",
         source.extent(0), " sources");
  const detail::ScoreInput input(ctx, targets.ids, config);
  if (targets.ids.empty()) return {};
  const auto memory = ctx.scratch();
  const auto hidden =
      model.decode(ctx, input.ids, model.encode(ctx, source, lengths), lengths, input.lengths);  // (B, N, D)
  return detail::scores_of(ctx, model, hidden, targets.ids, input, config);
}
template <class Model>
std::vector<Score> score(Context& ctx, const Model& model, const Sequences& sources, const Sequences& targets,
                         const ScoreConfig& config) {
  const detail::PaddedIds source(sources.ids);
  return score(ctx, model, source.ids, source.lengths, targets, config);
}

}  // namespace eigenformer
