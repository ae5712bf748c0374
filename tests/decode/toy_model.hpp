// A model whose logits are any function of what was said, to decode from: what is tested is the decoding alone.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "eigenformer/core/context.hpp"
#include "eigenformer/core/random.hpp"
#include "eigenformer/model/next_tokens.hpp"

namespace eigenformer::test {

using Texts = std::vector<std::vector<Id>>;

/// Logits (V) after a text; the source is empty in a decoder-only model.
using ToyRule = std::function<std::vector<double>(std::span<const Id> source, std::span<const Id> text)>;

template <class Scalar = float>
struct ToyModel {
  using T = Scalar;

  Index vocabulary;
  ToyRule rule;

  /// What the model was asked for.
  struct Pass {
    Index sequences, tokens, longest;
    bool logits;
  };
  mutable std::vector<Pass> passes{};

  struct State {
    Texts sources, texts;

    Index sequences() const { return static_cast<Index>(texts.size()); }
    Index length(Index s) const { return static_cast<Index>(texts[static_cast<std::size_t>(s)].size()); }
    void select(std::span<const Index> which) {
      State to;
      for (const Index i : which) {
        to.sources.push_back(sources.at(static_cast<std::size_t>(i)));
        to.texts.push_back(texts.at(static_cast<std::size_t>(i)));
      }
      *this = std::move(to);
    }
    void reserve(Index, Index = 0) {}
    void truncate(std::span<const Index> lengths) {
      for (std::size_t s = 0; s < texts.size(); ++s) {
        ensure(lengths[s] <= length(static_cast<Index>(s)), "toy", "cannot go back");
        texts[s].resize(static_cast<std::size_t>(lengths[s]));
      }
    }
  };

  State start(Index sequences) const {
    return {Texts(static_cast<std::size_t>(sequences)), Texts(static_cast<std::size_t>(sequences))};
  }
  State start(Context&, ConstView<Id, 2> source, ConstView<Index, 1> lengths) const {
    State state = start(source.extent(0));
    for (Index b = 0; b < source.extent(0); ++b) {
      const Id* const row = source.row(b);
      state.sources[static_cast<std::size_t>(b)].assign(row, row + (lengths ? lengths[b] : source.extent(1)));
    }
    return state;
  }

  void hidden(Context&, const NextTokens& next, State& state) const { read(next, state, false); }

  ConstView<T, 2> next_logits(Context& ctx, const NextTokens& next, State& state) const {
    next.check_wanted("toy");
    read(next, state, true);
    const View<T, 2> logits = ctx.arena.allocate<T>(Shape{next.all_wanted(), vocabulary});
    Index to = 0;
    for (std::size_t i = 0; i < state.texts.size(); ++i)
      for (Index later = next.wanted_of(i); later-- > 0; ++to) {
        const auto text = std::span<const Id>(state.texts[i]);
        const std::vector<double> row =
            rule(state.sources[i], text.first(text.size() - static_cast<std::size_t>(later)));
        std::transform(row.begin(), row.end(), logits.row(to), [](double x) { return static_cast<T>(x); });
      }
    return logits;
  }

 private:
  void read(const NextTokens& next, State& state, bool logits) const {
    next.validate("toy", state.sequences());
    passes.push_back({state.sequences(), static_cast<Index>(next.ids.size()),
                      *std::max_element(next.counts.begin(), next.counts.end()), logits});
    auto from = next.ids.begin();
    for (std::size_t i = 0; i < next.counts.size(); ++i) {
      state.texts[i].insert(state.texts[i].end(), from, from + next.counts[i]);
      from += next.counts[i];
    }
  }
};

/// Numbers in [0, scale) that depend on all that was said.
inline ToyRule hashed(Index vocabulary, std::uint64_t seed, double scale) {
  return [=](std::span<const Id> source, std::span<const Id> text) {
    std::uint64_t hash = seed;
    for (const auto ids : {source, text})
      for (const Id id : ids)
        hash = (hash ^ static_cast<std::uint64_t>(id + 1)) * 0x9E3779B97F4A7C15 + (hash >> 29) + 1;
    RandomSequence random(hash);
    std::vector<double> logits;
    for (Index v = 0; v < vocabulary; ++v) logits.push_back(scale * random.uniform());
    return logits;
  };
}

/// Rows of a table, by the last token.
inline ToyRule table(std::vector<std::vector<double>> rows) {
  return [=](std::span<const Id>, std::span<const Id> text) { return rows[static_cast<std::size_t>(text.back())]; };
}

inline std::vector<double> logs(std::vector<double> probabilities) {
  for (double& p : probabilities) p = std::log(p);
  return probabilities;
}

/// log p of every token, plainly.
inline std::vector<double> log_softmax(std::vector<double> logits) {
  double sum = 0;
  const double largest = *std::max_element(logits.begin(), logits.end());
  for (const double x : logits) sum += std::exp(x - largest);
  for (double& x : logits) x -= largest + std::log(sum);
  return logits;
}

}  // namespace eigenformer::test
