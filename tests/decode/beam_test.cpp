// Beam search against trying every text.
#include "eigenformer/decode/beam.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "decode/toy_model.hpp"
#include "eigenformer/decode/generate.hpp"
#include "support/error.hpp"
#include "support/tensors.hpp"

namespace eigenformer::test {
namespace {

using Hypotheses = std::vector<Hypothesis>;

struct PlainText {
  std::vector<Id> tokens;
  bool ended;
  double score, normalized;
};

/// Every text of at most `longest` tokens, ends included, by what is left of its score after the penalty; ends count
/// from `shortest` tokens on.
std::vector<PlainText> all_texts(const ToyRule& rule, const std::vector<Id>& prompt, const std::vector<Id>& ends,
                                 Index shortest, Index longest, const std::function<double(double)>& penalty) {
  std::vector<PlainText> results;
  const std::function<void(std::vector<Id>, double)> extend = [&](const std::vector<Id>& tokens, double score) {
    if (static_cast<Index>(tokens.size()) == longest) {
      results.push_back({tokens, false, score, score / penalty(static_cast<double>(longest))});
      return;
    }
    std::vector<Id> text = prompt;
    text.insert(text.end(), tokens.begin(), tokens.end());
    const auto row = log_softmax(rule({}, text));
    for (std::size_t v = 0; v < row.size(); ++v) {
      if (row[v] == -HUGE_VAL) continue;
      if (std::find(ends.begin(), ends.end(), static_cast<Id>(v)) == ends.end()) {
        std::vector<Id> more = tokens;
        more.push_back(static_cast<Id>(v));
        extend(more, score + row[v]);
      } else if (static_cast<Index>(tokens.size()) >= shortest) {
        results.push_back(
            {tokens, true, score + row[v], (score + row[v]) / penalty(static_cast<double>(tokens.size() + 1))});
      }
    }
  };
  extend({}, 0);
  std::stable_sort(results.begin(), results.end(),
                   [](const PlainText& a, const PlainText& b) { return a.normalized > b.normalized; });
  return results;
}

void expect_texts(const Hypotheses& got, const std::vector<PlainText>& want, std::size_t count,
                  double tolerance = 1e-12) {
  ASSERT_EQ(got.size(), (std::min)(count, want.size()));
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].tokens, want[i].tokens) << i;
    EXPECT_EQ(got[i].ended, want[i].ended) << i;
    EXPECT_NEAR(got[i].score, want[i].score, tolerance) << i;
    EXPECT_NEAR(got[i].normalized, want[i].normalized, tolerance) << i;
    ASSERT_EQ(got[i].log_probabilities.size(), got[i].tokens.size() + (got[i].ended ? 1 : 0));
    double sum = 0;
    for (const double each : got[i].log_probabilities) sum += each;
    EXPECT_NEAR(sum, got[i].score, tolerance);
  }
}

void expect_same(const Hypotheses& a, const Hypotheses& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].tokens, b[i].tokens);
    EXPECT_EQ(a[i].log_probabilities, b[i].log_probabilities);
    EXPECT_EQ(a[i].score, b[i].score);
    EXPECT_EQ(a[i].normalized, b[i].normalized);
    EXPECT_EQ(a[i].ended, b[i].ended);
  }
}

struct PenaltyCase {
  LengthPenalty rule;
  double alpha;
  double operator()(double n) const {
    return rule == LengthPenalty::none ? 1
           : rule == LengthPenalty::wu ? std::exp(alpha * std::log((5 + n) / 6))
                                       : std::exp(alpha * std::log(n));
  }
};
const std::vector<PenaltyCase> penalty_cases{
    {LengthPenalty::none, 1},   {LengthPenalty::wu, 0.6},  {LengthPenalty::wu, 3},    {LengthPenalty::wu, -2},
    {LengthPenalty::wu, 0},     {LengthPenalty::power, 1}, {LengthPenalty::power, 2}, {LengthPenalty::power, 0.5},
    {LengthPenalty::power, -1}, {LengthPenalty::power, 0}};

TEST(Beam, WideEnoughFindsTheBestOfAll) {
  std::size_t longest_best = 0, shortest_best = 99;
  for (std::uint64_t seed = 0; seed < 6; ++seed)
    for (const PenaltyCase& penalty : penalty_cases)
      for (const Index min_tokens : {0, 2}) {
        const ToyModel<double> model{4, hashed(4, seed, 3)};
        const std::vector<Id> ends = seed % 2 == 0 ? std::vector<Id>{1} : std::vector<Id>{1, 3};
        Context ctx;
        const auto got = beam_search(ctx, model, {{2, 0}},
                                     {.max_tokens = 5,
                                      .min_tokens = min_tokens,
                                      .eos = ends,
                                      .beams = 1000,
                                      .n_best = 20,
                                      .penalty = penalty.rule,
                                      .alpha = penalty.alpha});
        const auto want = all_texts(model.rule, {2, 0}, ends, min_tokens, 5, penalty);
        expect_texts(got[0], want, 20);
        longest_best = (std::max)(longest_best, want[0].tokens.size());
        shortest_best = (std::min)(shortest_best, want[0].tokens.size());
        if (HasFailure()) return;
      }
  EXPECT_EQ(shortest_best, 0u);
  EXPECT_EQ(longest_best, 5u) << "the cases should differ";
}

TEST(Beam, StoppingEarlyChangesNothing) {
  std::size_t saved = 0;
  for (std::uint64_t seed = 0; seed < 30; ++seed)
    for (const PenaltyCase& penalty : penalty_cases)
      for (const Index beams : {1, 2, 3, 5}) {
        const ToyModel<> model{6, hashed(6, seed, 4)};
        Context ctx;
        const auto search = [&](bool early) {
          model.passes.clear();
          return beam_search(ctx, model, {{2}, {3, 5}},
                             {.max_tokens = 14,
                              .eos = {1, 4},
                              .beams = beams,
                              .n_best = (beams + 1) / 2,
                              .penalty = penalty.rule,
                              .alpha = penalty.alpha,
                              .stop_early = early});
        };
        const auto late = search(false);
        const std::size_t passes = model.passes.size();
        EXPECT_TRUE(beams == 1 || passes == 14u) << "nothing is settled";
        const auto early = search(true);
        EXPECT_LE(model.passes.size(), passes);
        saved += passes - model.passes.size();
        for (std::size_t i = 0; i < 2; ++i) expect_same(early[i], late[i]);
        if (HasFailure()) return;
      }
  EXPECT_GT(saved, 1000u);
}

TEST(Beam, OneIsGreedy) {
  for (std::uint64_t seed = 0; seed < 30; ++seed)
    for (const PenaltyCase& penalty : penalty_cases) {
      const ToyModel<> model{6, hashed(6, seed, 2)};
      Context ctx;
      const Texts prompts{{2}, {3, 5}, {0}};
      const auto greedy = generate(ctx, model, prompts, {.max_tokens = 9, .eos = {1}, .log_probabilities = true});
      const auto beam =
          beam_search(ctx, model, prompts,
                      {.max_tokens = 9, .eos = {1}, .beams = 1, .penalty = penalty.rule, .alpha = penalty.alpha});
      for (std::size_t i = 0; i < prompts.size(); ++i) {
        ASSERT_EQ(beam[i].size(), 1u);
        EXPECT_EQ(beam[i][0].tokens, greedy[i].tokens);
        EXPECT_EQ(beam[i][0].ended, greedy[i].ending == Ending::eos);
        EXPECT_EQ(beam[i][0].log_probabilities, greedy[i].log_probabilities);
      }
    }
}

/// The search as it is described, without states and batches.
Hypotheses plain_search(const ToyRule& rule, const std::vector<Id>& prompt, Id end, std::size_t beams,
                        std::size_t n_best, std::size_t longest, const PenaltyCase& penalty) {
  struct Text {
    std::vector<Id> tokens;
    std::vector<double> log_probabilities;
    double score;
    bool ended;
  };
  std::vector<Text> live{{{}, {}, 0, false}}, done;
  for (std::size_t n = 1; n <= longest; ++n) {
    std::vector<Text> all;
    for (const Text& text : live) {
      std::vector<Id> whole = prompt;
      whole.insert(whole.end(), text.tokens.begin(), text.tokens.end());
      const auto row = log_softmax(rule({}, whole));
      for (std::size_t v = 0; v < row.size(); ++v) {
        all.push_back(text);
        all.back().ended = static_cast<Id>(v) == end;
        if (!all.back().ended) all.back().tokens.push_back(static_cast<Id>(v));
        all.back().log_probabilities.push_back(row[v]);
        all.back().score += row[v];
      }
    }
    std::stable_sort(all.begin(), all.end(), [](const Text& a, const Text& b) { return a.score > b.score; });
    live.clear();
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      if (all[rank].ended && rank < beams) done.push_back(all[rank]);
      if (!all[rank].ended && live.size() < beams) live.push_back(all[rank]);
    }
  }
  done.insert(done.end(), live.begin(), live.end());
  Hypotheses results;
  for (const Text& text : done)
    results.push_back({text.tokens, text.log_probabilities, text.score,
                       text.score / penalty(static_cast<double>(text.log_probabilities.size())), text.ended});
  std::stable_sort(results.begin(), results.end(),
                   [](const Hypothesis& a, const Hypothesis& b) { return a.normalized > b.normalized; });
  results.resize((std::min)(n_best, results.size()));
  return results;
}

TEST(Beam, NarrowOnesAreThePlainSearch) {
  bool missed = false;
  for (std::uint64_t seed = 0; seed < 20; ++seed)
    for (const PenaltyCase& penalty : penalty_cases)
      for (const std::size_t beams : {2u, 3u, 4u}) {
        const ToyModel<double> model{5, hashed(5, seed, 3)};
        Context ctx;
        const auto got = beam_search(ctx, model, {{2}},
                                     {.max_tokens = 6,
                                      .eos = {1},
                                      .beams = static_cast<Index>(beams),
                                      .n_best = 2,
                                      .penalty = penalty.rule,
                                      .alpha = penalty.alpha});
        const auto want = plain_search(model.rule, {2}, 1, beams, 2, 6, penalty);
        ASSERT_EQ(got[0].size(), want.size());
        for (std::size_t i = 0; i < want.size(); ++i) {
          EXPECT_EQ(got[0][i].tokens, want[i].tokens);
          EXPECT_EQ(got[0][i].ended, want[i].ended);
          EXPECT_NEAR(got[0][i].normalized, want[i].normalized, 1e-12);
        }
        missed = missed || all_texts(model.rule, {2}, {1}, 0, 6, penalty)[0].tokens != want[0].tokens;
        if (HasFailure()) return;
      }
  EXPECT_TRUE(missed) << "a narrow search should not always find the best";
}

TEST(Beam, LengthIsThatOfTheGeneratedTokens) {
  // From a prompt of three: 0 then 1 then the end (3), or 0, 1, 2, are −1 a token; the rest is out of the question.
  const ToyModel<double> model{
      4, [](auto, std::span<const Id> text) {
        const double one = std::exp(-1.0), rest = std::log((1 - one) / 2), same = std::log((1 - 2 * one) / 2);
        std::vector<std::vector<double>> rows{
            {-1, rest - 9, rest - 9, -50}, {rest - 9, -1, rest - 9, -50}, {same - 9, same - 9, -1, -1}};
        auto& row = rows[(text.size() - 3) % 3];
        double sum = 0;  // token 0's and 1's logits make up what is missing of a probability of 1
        for (const double x : row) sum += std::exp(x);
        const std::size_t filler = (text.size() - 3) % 3 == 0 ? 1 : 0;
        row[filler] = std::log(std::exp(row[filler]) + 1 - sum);
        return row;
      }};
  Context ctx;
  const auto got = beam_search(
      ctx, model, {{2, 2, 2}},
      {.max_tokens = 3, .eos = {3}, .beams = 50, .n_best = 50, .penalty = LengthPenalty::power, .alpha = 1});
  const auto find = [&](const std::vector<Id>& tokens, bool ended) {
    return *std::find_if(got[0].begin(), got[0].end(),
                         [&](const Hypothesis& each) { return each.tokens == tokens && each.ended == ended; });
  };
  for (const Hypothesis& each : {find({0, 1}, true), find({0, 1, 2}, false)}) {
    EXPECT_NEAR(each.score, -3, 1e-12);
    EXPECT_NEAR(each.normalized, -1, 1e-12);
  }
  EXPECT_EQ(length_penalty(LengthPenalty::none, 5, 7), 1);
  EXPECT_NEAR(length_penalty(LengthPenalty::wu, 1, 7), 2, 1e-15);
  EXPECT_NEAR(length_penalty(LengthPenalty::wu, 2, 1), 1, 1e-15);
  EXPECT_NEAR(length_penalty(LengthPenalty::power, 2, 3), 9, 1e-15);
  EXPECT_NEAR(length_penalty(LengthPenalty::power, -1, 4), 0.25, 1e-15);
}

TEST(Beam, PromptLengthDoesNotRank) {
  const ToyModel<double> model{
      6, [rule = hashed(6, 4, 3)](auto, std::span<const Id> text) {  // knows from the first 5 on
        return rule({}, text.subspan(static_cast<std::size_t>(std::find(text.begin(), text.end(), 5) - text.begin())));
      }};
  Context ctx;
  const auto got = beam_search(ctx, model, {{5}, {0, 0, 0, 0, 0, 0, 0, 0, 5}},
                               {.max_tokens = 7, .eos = {1}, .n_best = 4, .penalty = LengthPenalty::power, .alpha = 1});
  expect_same(got[0], got[1]);
}

TEST(Beam, TiesGoToTheLowestBeamAndToken) {
  const ToyModel<> model{4, [](auto, auto) { return std::vector<double>(4, 0.0); }};
  Context ctx;
  const auto got = beam_search(ctx, model, {{0}}, {.max_tokens = 2, .eos = {3}, .beams = 3, .n_best = 3});
  // Step 1: 0, 1, 2 go on. Step 2: of all equals the candidates of 0: they are three others than the end.
  const std::vector<std::vector<Id>> want{{0, 0}, {0, 1}, {0, 2}};
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(got[0][i].tokens, want[i]);
}

TEST(Beam, EachOfABatchIsItselfAlone) {
  const ToyModel<> model{200, hashed(200, 6, 12)};
  Context ctx, threaded(Threads(3));
  std::vector<Id> ends;
  for (Id id = 5; id < 200; id += 9) ends.push_back(id);
  const BeamConfig config{.max_tokens = 12,
                          .min_tokens = 1,
                          .eos = ends,
                          .beams = 5,
                          .n_best = 2,
                          .penalty = LengthPenalty::wu,
                          .alpha = 0.6,
                          .rules = {.repetition_penalty = 1.1, .no_repeat = 2, .suppressed = {8}},
                          .chunk = 2};
  for (const bool ruled : {false, true}) {
    BeamConfig used = config;
    if (!ruled) used.rules = {};
    const Texts prompts{{3}, {1, 4, 1, 5, 9, 2, 6}, {2, 7, 1}, {8, 2, 8, 1, 8}};
    model.passes.clear();
    const auto together = beam_search(ctx, model, prompts, used);
    EXPECT_LT(model.passes.back().sequences, 20) << "sentences that are done leave the batch";
    const auto by_threads = beam_search(threaded, model, prompts, used);
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      const auto alone = beam_search(ctx, model, {prompts[i]}, used);
      expect_same(alone[0], together[i]);
      expect_same(alone[0], by_threads[i]);
    }
  }
}

TEST(Beam, OneHypothesisEachThenAllSideBySide) {
  const ToyModel<> model{9, hashed(9, 2, 1)};
  Context ctx;
  beam_search(ctx, model, {{3, 4, 5}, {1}}, {.max_tokens = 3, .beams = 4, .chunk = 2});
  std::vector<Index> sequences;
  for (const auto& pass : model.passes) sequences.push_back(pass.sequences);
  EXPECT_EQ(sequences, (std::vector<Index>{2, 2, 8, 8}));
}

TEST(Beam, FromSources) {
  // After the source's token s, s + 1 or (with less) s + 2.
  const ToyModel<double> model{
      10, [](std::span<const Id> source, std::span<const Id> text) {
        std::vector<double> p(10, 0.0);
        const std::size_t n = text.size() - 1;
        if (n < source.size())
          p[static_cast<std::size_t>(source[n]) + 1] = 0.75, p[static_cast<std::size_t>(source[n]) + 2] = 0.25;
        else p[0] = 1;
        return logs(p);
      }};
  Context ctx;
  const auto got = beam_search(ctx, model, matrix<Id>({{5, 1}, {2, 0}}), lengths({2, 1}),
                               {.eos = {0}, .bos = 1, .beams = 4, .n_best = 4});
  const std::vector<std::pair<std::vector<Id>, double>> first{
      {{6, 2}, 0.5625}, {{6, 3}, 0.1875}, {{7, 2}, 0.1875}, {{7, 3}, 0.0625}},
      second{{{3}, 0.75}, {{4}, 0.25}};
  ASSERT_EQ(got[0].size(), 4u);
  ASSERT_EQ(got[1].size(), 2u) << "there are no more";
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(got[0][i].tokens, first[i].first);
    EXPECT_NEAR(got[0][i].score, std::log(first[i].second), 1e-12);
  }
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(got[1][i].tokens, second[i].first);
    EXPECT_NEAR(got[1][i].score, std::log(second[i].second), 1e-12);
  }
  const auto forced = beam_search(ctx, model, matrix<Id>({{5, 1}, {2, 0}}), lengths({2, 1}),
                                  {.eos = {0}, .bos = 1, .beams = 4, .n_best = 4, .prefixes = {{7}, {}}});
  ASSERT_EQ(forced[0].size(), 2u);
  EXPECT_EQ(forced[0][0].tokens, (std::vector<Id>{7, 2}));
  EXPECT_NEAR(forced[0][0].score, std::log(0.25 * 0.75), 1e-12) << "what is forced has the model's probability";
  EXPECT_EQ(forced[0][1].tokens, (std::vector<Id>{7, 3}));
  expect_same(forced[1], got[1]);
}

TEST(Beam, RulesActOnLogProbabilities) {
  const ToyModel<double> model{3, [](auto, auto) {
                                 return std::vector<double>{std::log(0.5) + 7, std::log(0.3) + 7, std::log(0.2) + 7};
                               }};
  Context ctx;
  const auto got =
      beam_search(ctx, model, {{0}}, {.max_tokens = 1, .beams = 3, .n_best = 3, .rules = {.repetition_penalty = 2}});
  const std::vector<std::pair<Id, double>> want{{1, std::log(0.3)}, {0, 2 * std::log(0.5)}, {2, std::log(0.2)}};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(got[0][i].tokens[0], want[i].first);
    EXPECT_NEAR(got[0][i].score, want[i].second, 1e-12);
  }
  // A rule may leave one hypothesis with nothing to say, but not all: there are three texts without a repetition.
  const auto few =
      beam_search(ctx, model, {{0}}, {.max_tokens = 3, .eos = {2}, .beams = 4, .n_best = 4, .rules = {.no_repeat = 1}});
  ASSERT_EQ(few[0].size(), 2u);
  EXPECT_EQ(few[0][0].tokens, std::vector<Id>{});
  EXPECT_EQ(few[0][1].tokens, std::vector<Id>{1});
  const auto stuck =
      beam_search(ctx, model, {{0, 1}, {0}}, {.max_tokens = 3, .eos = {}, .n_best = 2, .rules = {.no_repeat = 1}});
  for (const std::size_t i :
       {0u, 1u}) {  // of both tokens that the second may begin with, the more probable, and the other
    ASSERT_EQ(stuck[i].size(), 1u);
    EXPECT_EQ(stuck[i][0].tokens, (i == 0 ? std::vector<Id>{2} : std::vector<Id>{1, 2}));
    EXPECT_NEAR(stuck[i][0].score, i == 0 ? std::log(0.2) : std::log(0.3 * 0.2), 1e-12);
    EXPECT_EQ(stuck[i][0].normalized, -HUGE_VAL);
    EXPECT_EQ(stuck[i][0].failure, "[decode] sequence " + std::to_string(i) + ", step " + std::to_string(i + 1) +
                                       ": every token is excluded");
  }
  const Processor bonus([](const DecodeStep&, auto logits) { logits[2] += 5; });
  EXPECT_EQ(
      error_of([&] { beam_search(ctx, model, {{0}}, {.max_tokens = 1, .rules = {.processors = {bonus}}}); }),
      "[beam_search] sentence 0, step 0: a rule made the log-probability of token 2 positive: stop_early must be off");
  EXPECT_EQ(
      beam_search(ctx, model, {{0}}, {.max_tokens = 2, .rules = {.processors = {bonus}}, .stop_early = false})[0][0]
          .tokens,
      (std::vector<Id>{2, 2}));
}

TEST(Beam, MoreBeamsThanTokens) {
  const ToyModel<double> model{2, hashed(2, 3, 1)};
  Context ctx;
  const auto got = beam_search(ctx, model, {{0}}, {.max_tokens = 2, .beams = 10, .n_best = 10});
  expect_texts(got[0], all_texts(model.rule, {0}, {}, 0, 2, [](double) { return 1.0; }), 10);
  EXPECT_EQ(got[0].size(), 4u);
}

TEST(Beam, NothingAndBadSettings) {
  const ToyModel<> model{5, hashed(5, 1, 1)};
  Context ctx;
  const auto none = beam_search(ctx, model, {{1}, {2}}, {.max_tokens = 0});
  ASSERT_EQ(none.size(), 2u);
  ASSERT_EQ(none[1].size(), 1u);
  EXPECT_TRUE(none[1][0].tokens.empty());
  EXPECT_TRUE(beam_search(ctx, model, Texts{}).empty());
  const auto error = [&](const BeamConfig& config) {
    return error_of([&] { beam_search(ctx, model, {{1}, {2}}, config); });
  };
  EXPECT_EQ(error({.beams = 0}), "[beam_search] beams 0 is invalid: must be in 1…1048576");
  EXPECT_EQ(error({.beams = 2, .n_best = 3}), "[beam_search] n_best 3 is invalid: must be in 1…2");
  EXPECT_EQ(error({.n_best = 0}), "[beam_search] n_best 0 is invalid: must be in 1…4");
  EXPECT_EQ(error({.max_tokens = 3, .min_tokens = 4}), "[decode] min_tokens 4 is invalid: must be in 0…3");
  EXPECT_EQ(error({.prefixes = {{1}}}), "[decode] 1 prefixes for 2 sequences");
  EXPECT_EQ(error({.rules = {.repetition_penalty = -1}}),
            "[decode] repetition_penalty -1 is invalid: must be in [2.2250738585072014e-308, inf)");
  EXPECT_EQ(error({.chunk = 0}), "[decode] chunk 0 is invalid: must be in 1…" + std::to_string(largest_index));
  EXPECT_EQ(error_of([&] { beam_search(ctx, model, matrix<Id>({{1}}), {}); }),
            "[beam_search] an encoder–decoder needs a bos token");
  EXPECT_EQ(error_of([&] { beam_search(ctx, model, ConstView<Id, 2>(), {}, {.bos = 1}); }),
            "[beam_search] no source is given");
  EXPECT_TRUE(model.passes.empty());
  EXPECT_EQ(error({.eos = {5}}), "[decode] token 5 is not in a vocabulary of 5");
  const ToyModel<> broken{3, [](auto, std::span<const Id> text) {
                            return std::vector<double>{1, text.size() < 3 ? 1 : std::nan(""), 1};
                          }};
  const auto half = beam_search(ctx, broken, {{0}, {0, 0}}, {.max_tokens = 2});
  EXPECT_EQ(half[0][0].failure, "");
  EXPECT_EQ(half[0][0].tokens, (std::vector<Id>{0, 0}));
  EXPECT_EQ(half[1][0].failure, "[decode] sequence 1, step 1: the logit of token 1 is not a number");
  EXPECT_EQ(half[1][0].tokens, std::vector<Id>{0});
  const ToyModel<> silent{3, [](auto, auto) { return std::vector<double>(3, -HUGE_VAL); }};
  EXPECT_EQ(beam_search(ctx, silent, {{0}})[0][0].failure, "[decode] sequence 0, step 0: every token is excluded");
}

TEST(Beam, OneThatFailsCostsTheOthersNothing) {
  const auto row = [](std::span<const Id> text, const ToyRule& rule) { return rule({}, text); };
  const ToyModel<> model{7,
                         [=, rule = hashed(7, 3, 3)](auto, std::span<const Id> text) {  // after 5 there are no numbers
                           auto logits = row(text, rule);
                           if (text.back() == 5) logits[3] = std::nan("");
                           return logits;
                         }};
  const ToyModel<> shy{
      7, [=, rule = hashed(7, 3, 3)](auto, std::span<const Id> text) {  // which after 5 has nothing to say instead
        return text.back() == 5 ? std::vector<double>(7, -HUGE_VAL) : row(text, rule);
      }};
  Context ctx, threaded(Threads(3));
  const Texts prompts{{2}, {1, 5}, {3, 4}, {6}};
  const BeamConfig config{.max_tokens = 6, .eos = {0}, .beams = 3, .n_best = 2, .penalty = LengthPenalty::power};
  const auto together = beam_search(ctx, model, prompts, config),
             by_threads = beam_search(threaded, model, prompts, config);
  const auto without = beam_search(ctx, shy, prompts, config);
  std::size_t beside = 0;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const auto alone = beam_search(ctx, model, {prompts[i]}, config)[0];
    expect_same(alone, together[i]);
    expect_same(alone, by_threads[i]);
    expect_same(alone, without[i]);
    const Hypothesis& last = alone.back();
    EXPECT_EQ(alone.size() == 1, i == 1) << "of a prompt that ends so nothing is left";
    if (last.failure.empty()) continue;
    beside += alone.size() == 3;
    EXPECT_EQ(last.normalized, -HUGE_VAL);
    EXPECT_EQ((last.tokens.empty() ? prompts[i] : last.tokens).back(), 5);
    EXPECT_EQ(together[i].back().failure, "[decode] sequence " + std::to_string(i) + ", step " +
                                              std::to_string(last.tokens.size()) +
                                              ": the logit of token 3 is not a number");
    for (std::size_t n = 0; n + 1 < alone.size(); ++n) EXPECT_TRUE(alone[n].failure.empty());
  }
  EXPECT_GT(beside, 0u) << "choose another seed";
}

TEST(Beam, WhatTheModelThrowsKeepsTheTextsSoFar) {
  const ToyModel<double> model{4, [](auto, std::span<const Id> text) {
                                 ensure(text.size() < 4, "toy", "position ", text.size(), " is past the last of 4");
                                 return logs({0.5, 0.3, 0.1, 0.1});
                               }};
  Context ctx;
  const auto results =
      beam_search(ctx, model, {{1}, {1, 2}},
                  {.max_tokens = 9, .eos = {3}, .beams = 4, .n_best = 4, .penalty = LengthPenalty::power});
  for (const auto& texts : results) {  // the end was among the best four of the first step, not of the second
    ASSERT_EQ(texts.size(), 2u);
    EXPECT_TRUE(texts[0].ended && texts[0].tokens.empty());
    EXPECT_EQ(texts[1].failure, "[toy] position 4 is past the last of 4");
    EXPECT_EQ(texts[1].tokens, (std::vector<Id>{0, 0})) << "the best that went on";
    EXPECT_NEAR(texts[1].score, 2 * std::log(0.5), 1e-12);
  }
  EXPECT_EQ(error_of([&] { beam_search(ctx, model, {{1, 1, 1, 1}}); }), "[toy] position 4 is past the last of 4");
}

TEST(Beam, ForcedTokensCostWhatIsAsked) {
  // 0 with 0.6, then the end (2) with 0.1; 1 with 0.4, then the end with 0.9.
  const ToyModel<double> model{3, table({logs({0.5, 0.4, 0.1}), logs({0.05, 0.05, 0.9}), logs({0.6, 0.4, 0})})};
  Context ctx;
  BeamConfig config{.max_tokens = 2, .eos = {2}, .beams = 2, .n_best = 2, .rules = {.forced = {{1, 2}}}};
  const auto search = [&] { return beam_search(ctx, model, {{2}}, config)[0]; };
  const auto free = search();
  EXPECT_EQ(free[0].tokens, std::vector<Id>{0});
  EXPECT_EQ(free[1].tokens, std::vector<Id>{1});
  EXPECT_NEAR(free[0].score, std::log(0.6), 1e-12);
  EXPECT_EQ(free[0].log_probabilities[1], 0);
  EXPECT_TRUE(free[0].ended && free[1].ended);
  config.forced_cost = true;
  const auto dear = search();
  EXPECT_EQ(dear[0].tokens, std::vector<Id>{1});
  EXPECT_NEAR(dear[0].score, std::log(0.4 * 0.9), 1e-12);
  EXPECT_NEAR(dear[1].score, std::log(0.6 * 0.1), 1e-12);
  // A first token that the model excludes: free, it comes all the same.
  config = {.max_tokens = 2, .eos = {2}, .beams = 2, .rules = {.forced = {{0, 2}}}};
  EXPECT_EQ(search()[0].score, 0);
  EXPECT_TRUE(search()[0].tokens.empty() && search()[0].ended);
  config.forced_cost = true;
  EXPECT_EQ(search()[0].failure, "[decode] sequence 0, step 0: every token is excluded");
}

}  // namespace
}  // namespace eigenformer::test
