// Generation, from models whose every logit is known.
#include "eigenformer/decode/generate.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "decode/toy_model.hpp"
#include "support/error.hpp"
#include "support/tensors.hpp"

namespace eigenformer::test {
namespace {

Texts tokens_of(const std::vector<Generated>& results) {
  Texts texts;
  for (const Generated& result : results) texts.push_back(result.tokens);
  return texts;
}

/// After t comes t + 1, and 0 after the last.
ToyModel<> counting(Index vocabulary) {
  std::vector<std::vector<double>> rows;
  for (Index t = 0; t < vocabulary; ++t) {
    rows.emplace_back(static_cast<std::size_t>(vocabulary), 0.0);
    rows.back()[static_cast<std::size_t>((t + 1) % vocabulary)] = 1;
  }
  return {vocabulary, table(rows)};
}

/// What always taking the largest logit gives.
std::vector<Id> plain_greedy(const ToyRule& rule, std::vector<Id> text, Index count) {
  const std::size_t prompt = text.size();
  for (Index n = 0; n < count; ++n) {
    const auto row = rule({}, text);
    text.push_back(static_cast<Id>(std::max_element(row.begin(), row.end()) - row.begin()));
  }
  return {text.begin() + static_cast<Index>(prompt), text.end()};
}

const Texts ragged{{3}, {1, 4, 1, 5, 9, 2, 6}, {2, 7, 1}, {8, 2, 8, 1, 8}};

TEST(Generate, IsTheMostProbableTokenInAnyPieces) {
  for (const Index chunk : {1, 2, 3, 7, 512}) {
    const ToyModel<> model{10, hashed(10, 1, 5)};
    Context ctx;
    const auto results = generate(ctx, model, ragged, {.max_tokens = 12, .chunk = chunk});
    for (std::size_t i = 0; i < ragged.size(); ++i) {
      EXPECT_EQ(results[i].tokens, plain_greedy(model.rule, ragged[i], 12));
      EXPECT_EQ(results[i].ending, Ending::length);
      EXPECT_TRUE(results[i].log_probabilities.empty());
    }
    const auto first = static_cast<std::size_t>((7 + chunk - 1) / chunk);  // passes over the prompts
    ASSERT_EQ(model.passes.size(), first + 11);
    for (std::size_t pass = 0; pass < model.passes.size(); ++pass) {
      EXPECT_LE(model.passes[pass].longest, chunk);
      EXPECT_EQ(model.passes[pass].logits, pass + 1 >= first);
      EXPECT_TRUE(pass < first || model.passes[pass].tokens == 4);
    }
  }
}

TEST(Generate, OfEqualsTheLowestId) {
  const ToyModel<> model{4, [](auto, auto) { return std::vector<double>{1, 2, 2, 2}; }};
  Context ctx;
  EXPECT_EQ(generate(ctx, model, {{0}}, {.max_tokens = 2})[0].tokens, (std::vector<Id>{1, 1}));
  EXPECT_EQ(generate(ctx, model, {{0}}, {.max_tokens = 2, .sampling = Sampling{.temperature = 0}})[0].tokens,
            (std::vector<Id>{1, 1}));
  EXPECT_EQ(generate(ctx, model, {{0}}, {.max_tokens = 2, .sampling = Sampling{.top_p = 0}})[0].tokens,
            (std::vector<Id>{1, 1}));
  EXPECT_EQ(generate(ctx, model, {{0}}, {.max_tokens = 2, .sampling = Sampling{.top_k = 1}})[0].tokens,
            (std::vector<Id>{1, 1}));
}

TEST(Generate, EndsAreNoPartOfTheTextAndLeaveTheBatch) {
  const auto model = counting(10);
  Context ctx;
  const auto results = generate(ctx, model, {{1}, {5}, {3}, {9}}, {.max_tokens = 5, .eos = {7, 4}});
  EXPECT_EQ(tokens_of(results), (Texts{{2, 3}, {6}, {}, {0, 1, 2, 3}}));
  for (const Generated& result : results) EXPECT_EQ(result.ending, Ending::eos);
  std::vector<Index> sequences;
  for (const auto& pass : model.passes) sequences.push_back(pass.sequences);
  EXPECT_EQ(sequences, (std::vector<Index>{4, 3, 2, 1, 1}));
  const auto cut = generate(ctx, model, {{1}}, {.max_tokens = 2, .eos = {4}});
  EXPECT_EQ(cut[0].tokens, (std::vector<Id>{2, 3})) << "the eos token would have been the third";
  EXPECT_EQ(cut[0].ending, Ending::length);
}

TEST(Generate, NothingIsAnEmptyText) {
  const auto model = counting(10);
  Context ctx;
  const auto none = generate(ctx, model, {{1}, {5}}, {.max_tokens = 0, .on_token = [](Index, Id) -> bool { throw 1; }});
  EXPECT_EQ(tokens_of(none), (Texts{{}, {}}));
  EXPECT_EQ(none[0].ending, Ending::length);
  EXPECT_TRUE(generate(ctx, model, Texts{}).empty());
  EXPECT_TRUE(generate(ctx, model, Tensor<Id, 2>(Shape{0, 3}), {}, {.bos = 1}).empty());
  EXPECT_TRUE(model.passes.empty());
}

TEST(Generate, FromSources) {
  // The source said once, token by token, then eos.
  const ToyModel<> model{
      10, [](std::span<const Id> source, std::span<const Id> text) {
        std::vector<double> row(10);
        row[text.size() - 1 < source.size() ? static_cast<std::size_t>(source[text.size() - 1]) : 2] = 1;
        return row;
      }};
  Context ctx;
  const auto source = matrix<Id>({{5, 6, 0}, {7, 8, 9}, {4, 0, 0}});
  EXPECT_EQ(tokens_of(generate(ctx, model, source, lengths({2, 3, 1}), {.eos = {2}, .bos = 1})),
            (Texts{{5, 6}, {7, 8, 9}, {4}}));
  EXPECT_EQ(tokens_of(generate(ctx, model, source, {}, {.eos = {2}, .bos = 1})),
            (Texts{{5, 6, 0}, {7, 8, 9}, {4, 0, 0}}));
  EXPECT_EQ(tokens_of(generate(ctx, model, source, lengths({2, 3, 1}),
                               {.eos = {2}, .bos = 1, .prefixes = {{3}, {}, {3, 3}}})),
            (Texts{{3, 6}, {7, 8, 9}, {3, 3}}));
  EXPECT_EQ(error_of([&] { generate(ctx, model, source, {}, {.eos = {2}}); }),
            "[generate] an encoder–decoder needs a bos token");
  EXPECT_EQ(error_of([&] { generate(ctx, model, ConstView<Id, 2>(), {}, {.bos = 1}); }),
            "[generate] no source is given");
  EXPECT_TRUE(generate(ctx, model, Tensor<Id, 2>(Shape{0, 3}), {}, {.bos = 1}).empty());
}

TEST(Generate, BeginPrefixesForcedAndShortestTexts) {
  const auto model = counting(10);
  Context ctx;
  EXPECT_EQ(generate(ctx, model, {{}, {5}}, {.max_tokens = 2, .bos = 7})[0].tokens, (std::vector<Id>{8, 9}));
  const auto forced =
      generate(ctx, model, {{1}, {5}, {0}}, {.max_tokens = 5, .eos = {4}, .prefixes = {{8}, {}, {1, 9, 4}}});
  EXPECT_EQ(tokens_of(forced), (Texts{{8, 9, 0, 1, 2}, {6, 7, 8, 9, 0}, {1, 9}}))
      << "prefixes count as generated; a forced eos ends the text";
  EXPECT_EQ(forced[2].ending, Ending::eos);
  EXPECT_EQ(
      tokens_of(generate(ctx, model, {{1}, {5}}, {.max_tokens = 4, .rules = {.suppressed = {7}, .forced = {{2, 7}}}})),
      (Texts{{2, 3, 7, 8}, {6, 0, 7, 8}}));
  EXPECT_EQ(
      tokens_of(generate(ctx, model, {{1}, {5}}, {.max_tokens = 2, .prefixes = {{8, 7, 6}, {9}}, .first_sequence = 3})),
      (Texts{{8, 7}, {9, 0}}));
  // The end is 3: 2 comes first, then something else than 3, which is 0 of all the equals.
  const auto least = generate(ctx, model, {{1}}, {.max_tokens = 6, .min_tokens = 2, .eos = {3}});
  EXPECT_EQ(least[0].tokens, (std::vector<Id>{2, 0, 1, 2}));
  EXPECT_EQ(generate(ctx, model, {{1}}, {.max_tokens = 6, .min_tokens = 1, .eos = {3}})[0].tokens,
            (std::vector<Id>{2}));
}

TEST(Generate, RulesSeePromptAndText) {
  const auto model = counting(4);
  Context ctx;
  EXPECT_EQ(generate(ctx, model, {{1, 2}}, {.max_tokens = 2, .rules = {.no_repeat = 1}})[0].tokens,
            (std::vector<Id>{3, 0}));
  // Equal logits but for what was said: the penalty moves on to the next.
  const ToyModel<> flat{4, [](auto, auto) { return std::vector<double>{1, 1, 1, 0.6}; }};
  EXPECT_EQ(generate(ctx, flat, {{1}}, {.max_tokens = 4, .rules = {.repetition_penalty = 2}})[0].tokens,
            (std::vector<Id>{0, 2, 3, 0}));
  std::vector<std::string> seen;
  const Processor note([&](const DecodeStep& at, auto logits) {
    std::string line = std::to_string(at.sequence) + "/" + std::to_string(at.generated) + ":";
    for (const Id id : at.tokens) line += std::to_string(id);
    seen.push_back(line);
    logits[3] = at.sequence == 6 ? 9 : 0;
  });
  Context threaded(Threads(3));
  EXPECT_EQ(tokens_of(generate(threaded, flat, {{1, 2}, {0}},
                               {.max_tokens = 2, .rules = {.processors = {note}}, .first_sequence = 5})),
            (Texts{{0, 0}, {3, 3}}));
  EXPECT_EQ(seen, (std::vector<std::string>{"5/0:12", "6/0:0", "5/1:120", "6/1:03"}));
}

TEST(Generate, LogProbabilitiesAreTheModelsOwn) {
  const ToyModel<double> model{6, hashed(6, 5, 2)};
  Context ctx;
  const auto results = generate(ctx, model, {{3}, {1, 4}},
                                {.max_tokens = 20,
                                 .eos = {2},
                                 .sampling = Sampling{.temperature = 2, .top_k = 4},
                                 .rules = {.suppressed = {5}},
                                 .log_probabilities = true});
  bool ended = false;
  for (std::size_t i = 0; i < 2; ++i) {
    std::vector<Id> text = i == 0 ? std::vector<Id>{3} : std::vector<Id>{1, 4}, generated = results[i].tokens;
    if (results[i].ending == Ending::eos) generated.push_back(2), ended = true;
    ASSERT_EQ(results[i].log_probabilities.size(), generated.size());
    for (std::size_t n = 0; n < generated.size(); ++n) {
      EXPECT_NEAR(results[i].log_probabilities[n],
                  log_softmax(model.rule({}, text))[static_cast<std::size_t>(generated[n])], 1e-12);
      text.push_back(generated[n]);
    }
  }
  EXPECT_TRUE(ended) << "choose another seed";
}

/// Where a text is cut by stop sequences, if so: at the start of the first to be complete.
std::size_t plain_cut(const std::vector<Id>& text, const Texts& stops) {
  for (std::size_t end = 1; end <= text.size(); ++end)
    for (std::size_t begin = 0; begin < end; ++begin)
      for (const auto& stop : stops)
        if (std::vector<Id>(text.begin() + static_cast<Index>(begin), text.begin() + static_cast<Index>(end)) == stop)
          return begin;
  return text.size();
}

/// How many tokens of a text no continuation in {0, 1} can take away.
std::size_t plain_certain(const std::vector<Id>& text, const Texts& stops) {
  std::size_t certain = text.size();
  for (unsigned bits = 0; bits < 16; ++bits) {
    std::vector<Id> longer = text;
    for (unsigned i = 0; i < 4; ++i) longer.push_back(static_cast<Id>(bits >> i & 1));
    certain = (std::min)(certain, plain_cut(longer, stops));
  }
  return certain;
}

TEST(Generate, StopSequencesAndWhatTheCallbackSees) {
  const std::vector<Texts> all_stops{
      {{0, 1, 0}}, {{1, 1}, {0, 0, 0, 1}}, {{1, 0, 1, 1}, {0, 0}}, {{0, 1, 1}, {1, 1, 1, 1}, {1, 0, 0}},
      {{1}},       {{1, 0, 1, 0}, {1, 1}}};
  int stopped = 0, ran = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed)
    for (const Texts& stops : all_stops) {
      const ToyModel<> model{2, hashed(2, seed, 1)};
      Context ctx;
      const std::vector<Id> whole = plain_greedy(model.rule, {0}, 9);
      std::vector<Id> seen;
      const auto result = generate(
          ctx, model, {{0}},
          {.max_tokens = 9, .stops = stops, .log_probabilities = true, .on_token = [&](Index sequence, Id token) {
             EXPECT_EQ(sequence, 0);
             seen.push_back(token);
             const auto said = static_cast<Index>(model.passes.size());
             // As soon as it is certain: not before this step, and now.
             if (said < 9) {
               EXPECT_LE(seen.size(), plain_certain({whole.begin(), whole.begin() + said}, stops));
               EXPECT_GT(seen.size(), said > 1 ? plain_certain({whole.begin(), whole.begin() + said - 1}, stops) : 0);
             }
             return true;
           }})[0];
      const std::size_t cut = plain_cut(whole, stops);
      EXPECT_EQ(result.tokens, (std::vector<Id>(whole.begin(), whole.begin() + static_cast<Index>(cut))));
      EXPECT_EQ(result.ending, cut < 9 ? Ending::stop_sequence : Ending::length);
      EXPECT_EQ(result.log_probabilities.size(), cut);
      EXPECT_EQ(seen, result.tokens);
      ++(cut < 9 ? stopped : ran);
      if (HasFailure()) return;
    }
  EXPECT_GT(stopped, 20);
  EXPECT_GT(ran, 20);
}

TEST(Generate, StopSequencesOfGeneratedTokensAlone) {
  const auto model = counting(10);
  Context ctx;
  const auto results = generate(ctx, model, {{1}, {2}, {3}}, {.max_tokens = 6, .stops = {{3, 4}}});
  EXPECT_EQ(tokens_of(results), (Texts{{2}, {}, {4, 5, 6, 7, 8, 9}})) << "the third prompt's 3 is none of its text";
  EXPECT_EQ(results[2].ending, Ending::length);
  const auto late = generate(ctx, model, {{2}}, {.max_tokens = 20, .min_tokens = 1, .stops = {{3, 4}}});
  EXPECT_EQ(late[0].tokens, (std::vector<Id>{3, 4, 5, 6, 7, 8, 9, 0, 1, 2})) << "a text would have been too short";
}

TEST(Generate, CallbackEndsASequence) {
  const auto model = counting(10);
  Context ctx;
  std::map<Index, std::vector<Id>> seen;
  const auto results = generate(ctx, model, {{1}, {5}}, {.max_tokens = 6, .on_token = [&](Index sequence, Id token) {
                                                           seen[sequence].push_back(token);
                                                           return sequence == 0 || token != 7;
                                                         }});
  EXPECT_EQ(tokens_of(results), (Texts{{2, 3, 4, 5, 6, 7}, {6, 7}}));
  EXPECT_EQ(results[0].ending, Ending::length);
  EXPECT_EQ(results[1].ending, Ending::callback);
  EXPECT_EQ(seen[0], results[0].tokens);
  EXPECT_EQ(seen[1], results[1].tokens);
  // Of tokens that were held back and come together, too: 3 4 6 was possible until 5 came.
  const auto held =
      generate(ctx, model, {{2}},
               {.max_tokens = 6, .stops = {{3, 4, 6}}, .log_probabilities = true, .on_token = [](Index, Id token) {
                  return token != 3;
                }});
  EXPECT_EQ(held[0].tokens, (std::vector<Id>{3}));
  EXPECT_EQ(held[0].log_probabilities.size(), 1u);
  EXPECT_EQ(held[0].ending, Ending::callback);
}

/// Σ (observed − expected)² / expected; infinite if what cannot be was observed.
double chi_square(const std::vector<double>& probabilities, const std::vector<Index>& observed, Index total) {
  double sum = 0;
  for (std::size_t i = 0; i < probabilities.size(); ++i) {
    const double expected = probabilities[i] * static_cast<double>(total), count = static_cast<double>(observed[i]);
    if (expected == 0) sum += count > 0 ? HUGE_VAL : 0;
    else sum += (count - expected) * (count - expected) / expected;
  }
  return sum;
}

TEST(Generate, DrawsInProportion) {
  const std::vector<double> p{0.4, 0.05, 0.2, 0.1, 0.25};
  const ToyModel<> model{5, [&](auto, auto) { return logs(p); }};
  struct Case {
    Sampling sampling;
    std::vector<double> expected;
  };
  const double root_sum = std::sqrt(0.4) + std::sqrt(0.05) + std::sqrt(0.2) + std::sqrt(0.1) + std::sqrt(0.25);
  const std::vector<Case> cases{
      {{.seed = 1}, p},
      {{.temperature = 2, .seed = 2},
       {std::sqrt(0.4) / root_sum, std::sqrt(0.05) / root_sum, std::sqrt(0.2) / root_sum, std::sqrt(0.1) / root_sum,
        std::sqrt(0.25) / root_sum}},
      {{.top_k = 3, .seed = 3}, {0.4 / 0.85, 0, 0.2 / 0.85, 0, 0.25 / 0.85}},
      {{.top_p = 0.6, .seed = 4}, {0.4 / 0.65, 0, 0, 0, 0.25 / 0.65}},
      {{.min_p = 0.2, .seed = 5}, {0.4 / 0.95, 0, 0.2 / 0.95, 0.1 / 0.95, 0.25 / 0.95}},
      {{.top_k = 4, .top_p = 0.9, .seed = 6},
       {0.4 / 0.95, 0, 0.2 / 0.95, 0.1 / 0.95, 0.25 / 0.95}},                        // 0.85 of 0.95 is less than 0.9
      {{.top_k = 3, .top_p = 0.76, .seed = 7}, {0.4 / 0.65, 0, 0, 0, 0.25 / 0.65}},  // of what top_k left: 0.65 / 0.85
  };
  for (const Case& each : cases) {
    Context ctx;
    std::vector<Index> observed(5);
    const Index sequences = 40, steps = 100;
    for (const Generated& result : generate(ctx, model, Texts(static_cast<std::size_t>(sequences), {0}),
                                            {.max_tokens = steps, .sampling = each.sampling}))
      for (const Id token : result.tokens) ++observed[static_cast<std::size_t>(token)];
    EXPECT_LT(chi_square(each.expected, observed, sequences * steps), 18.5)
        << "seed " << each.sampling.seed << ": one in a thousand at four degrees of freedom";
    EXPECT_GT(chi_square({0.2, 0.2, 0.2, 0.2, 0.2}, observed, sequences * steps), 18.5);
  }
}

TEST(Generate, DrawTakesTheTokenAtAPlace) {
  for (const Index vocabulary : {5, 300, 1000})
    for (const double u : {0.0, 0.1, 0.25, 0.49, 0.51, 0.75, 0.999, 1 - 0x1p-53}) {
      std::vector<double> logits(static_cast<std::size_t>(vocabulary)), sums;
      double total = 0;
      for (Index v = 0; v < vocabulary; ++v) {
        logits[static_cast<std::size_t>(v)] =
            v % 3 == 1 || v + 2 > vocabulary ? -HUGE_VAL : std::log(1 + static_cast<double>(v % 7));
        total += std::exp(logits[static_cast<std::size_t>(v)]);
        sums.push_back(total);
      }
      const auto want = std::upper_bound(sums.begin(), sums.end(), u * total * (1 - 1e-12)) - sums.begin();
      EXPECT_EQ(draw(DecodeStep{}, std::span<double>(logits), u), want) << vocabulary << " at " << u;
    }
  for (const int quarter : {0, 1, 2, 3}) {
    std::vector<float> equals(4, 2.0F);
    EXPECT_EQ(draw(DecodeStep{}, std::span<float>(equals), quarter * 0.25), quarter)
        << "a share begins with its first place";
  }
  std::vector<float> one{-HUGE_VALF, 3, -HUGE_VALF};
  EXPECT_EQ(draw(DecodeStep{}, std::span<float>(one), 1 - 0x1p-53), 1);
}

TEST(Generate, UniformNumbersDifferInEverything) {
  EXPECT_EQ(uniform_at(1, 2, 3), uniform_at(1, 2, 3));
  EXPECT_NE(uniform_at(1, 2, 3), uniform_at(2, 2, 3));
  EXPECT_NE(uniform_at(1, 2, 3), uniform_at(1, 3, 2));
  EXPECT_NE(uniform_at(1, 2, 3), uniform_at(1, 2, 4));
  if (sizeof(Index) == 8) {
    EXPECT_NE(uniform_at(1, 2, 3), uniform_at(1, static_cast<Index>(2 + (std::int64_t{1} << 32)), 3));
  }
}

TEST(Generate, EachOfABatchIsItselfAlone) {
  const ToyModel<> model{300, hashed(300, 9, 4)};
  Context ctx, threaded(Threads(3));
  const GenerateConfig config{
      .max_tokens = 30,
      .eos = {5, 17, 33, 44, 76, 99, 120, 150, 199, 222, 231, 280},
      .stops = {{7}, {9, 3}},
      .sampling = Sampling{.temperature = 1.3, .top_k = 200, .top_p = 0.95, .min_p = 0.01, .seed = 3},
      .rules = {.repetition_penalty = 1.2, .no_repeat = 2, .suppressed = {4}},
      .log_probabilities = true,
      .chunk = 2};
  const auto together = generate(ctx, model, ragged, config), by_threads = generate(threaded, model, ragged, config);
  std::vector<std::size_t> sizes_seen;
  for (std::size_t i = 0; i < ragged.size(); ++i) {
    GenerateConfig one = config;
    one.first_sequence = static_cast<Index>(i);
    const auto alone = generate(ctx, model, {ragged[i]}, one)[0];
    for (const Generated& other : {together[i], by_threads[i]}) {
      EXPECT_EQ(alone.tokens, other.tokens);
      EXPECT_EQ(alone.log_probabilities, other.log_probabilities);
      EXPECT_EQ(alone.ending, other.ending);
    }
    sizes_seen.push_back(alone.tokens.size());
  }
  EXPECT_NE(*std::min_element(sizes_seen.begin(), sizes_seen.end()),
            *std::max_element(sizes_seen.begin(), sizes_seen.end()))
      << "some should end before others";
  const auto twins = generate(ctx, model, {{3}, {3}}, config);
  EXPECT_NE(twins[0].tokens, twins[1].tokens) << "the same prompt twice is drawn twice";
}

TEST(Generate, LogitsThatAreNone) {
  const auto bad = [](double logit) {
    return ToyModel<>{3, [=](auto, std::span<const Id> text) {
                        return std::vector<double>{-HUGE_VAL, text.size() < 4 ? 1 : logit, -HUGE_VAL};
                      }};
  };
  Context ctx;
  for (const bool drawn : {false, true}) {
    const GenerateConfig config{.sampling = drawn ? std::optional(Sampling{.top_p = 0.5}) : std::nullopt,
                                .first_sequence = 3};
    const auto failure = [&](double logit) {
      const auto results = generate(ctx, bad(logit), {{0}, {0, 1}}, config);
      EXPECT_EQ(tokens_of(results), (Texts{{1, 1, 1}, {1, 1}}));
      for (const Generated& result : results) EXPECT_EQ(result.ending, Ending::failed);
      return results[1].failure;
    };
    EXPECT_EQ(failure(std::nan("")), "[decode] sequence 4, step 2: the logit of token 1 is not a number");
    EXPECT_EQ(failure(HUGE_VAL), "[decode] sequence 4, step 2: the logit of token 1 is infinite");
    EXPECT_EQ(failure(-HUGE_VAL), "[decode] sequence 4, step 2: every token is excluded");
  }
  const ToyModel<> fine{3, hashed(3, 1, 1)};
  const Processor spoils([](const DecodeStep&, auto logits) {
    logits[2] = static_cast<std::remove_reference_t<decltype(logits[0])>>(std::nan(""));
  });
  EXPECT_EQ(generate(ctx, fine, {{0}}, {.rules = {.processors = {spoils}}})[0].failure,
            "[decode] sequence 0, step 0: the logit of token 2 is not a number");
}

TEST(Generate, OneThatFailsCostsTheOthersNothing) {
  // After 7 there are no numbers. The texts that fail do so at different steps, the first at once.
  const ToyModel<> model{9, [rule = hashed(9, 4, 3)](auto source, std::span<const Id> text) {
                           auto row = rule(source, text);
                           if (text.back() == 7) row[text.size() % 9] = std::nan("");
                           return row;
                         }};
  const Texts prompts{{1}, {2, 7}, {3, 3}, {4}, {5}, {6}, {8}};
  Context ctx, threaded(Threads(3));
  std::size_t failed = 0, late = 0;
  for (const bool drawn : {false, true}) {
    GenerateConfig config{.max_tokens = 8, .eos = {0}, .log_probabilities = true};
    if (drawn) config.sampling = Sampling{.temperature = 2, .seed = 3};
    const auto together = generate(ctx, model, prompts, config),
               by_threads = generate(threaded, model, prompts, config);
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      GenerateConfig one = config;
      one.first_sequence = static_cast<Index>(i);
      const auto alone = generate(ctx, model, {prompts[i]}, one)[0];
      for (const Generated& other : {together[i], by_threads[i]}) {
        EXPECT_EQ(other.tokens, alone.tokens);
        EXPECT_EQ(other.log_probabilities, alone.log_probabilities);
        EXPECT_EQ(other.ending, alone.ending);
        EXPECT_EQ(other.failure, alone.failure);
      }
      const std::vector<Id>& text = alone.tokens.empty() ? prompts[i] : alone.tokens;
      EXPECT_EQ(alone.ending == Ending::failed, text.back() == 7 && alone.tokens.size() < 8);
      EXPECT_EQ(alone.ending == Ending::failed, !alone.failure.empty());
      if (alone.ending != Ending::failed) continue;
      ++failed;
      late += alone.tokens.size() > 0;
      EXPECT_EQ(alone.failure.find("[decode] sequence " + std::to_string(i) + ", step " +
                                   std::to_string(alone.tokens.size()) + ": the logit of token "),
                0u)
          << alone.failure;
      EXPECT_EQ(alone.log_probabilities.size(), alone.tokens.size());
    }
  }
  EXPECT_GT(late, 0u);
  EXPECT_LT(failed, 14u) << "choose another seed";
}

TEST(Generate, OneWithoutTokensFailsAlone) {
  const auto model = counting(4);
  Context ctx;
  std::vector<Id> seen;
  const auto results = generate(
      ctx, model, {{0}, {1, 2}},
      {.max_tokens = 3, .stops = {{0, 1}}, .rules = {.no_repeat = 1}, .on_token = [&](Index sequence, Id token) {
         if (sequence == 1) seen.push_back(token);
         return true;
       }});
  EXPECT_EQ(tokens_of(results), (Texts{{1, 2, 3}, {3, 0}}));
  EXPECT_EQ(results[0].ending, Ending::length);
  EXPECT_EQ(results[1].ending, Ending::failed);
  EXPECT_EQ(results[1].failure, "[decode] sequence 1, step 2: every token is excluded");
  EXPECT_EQ(seen, (std::vector<Id>{3, 0})) << "what was held back as the start of a stop sequence is none";
  const Processor refuses([](const DecodeStep& at, auto) {
    if (at.sequence == 0 && at.generated == 1) throw SequenceError("enough");
  });
  const auto refused = generate(ctx, model, {{0}, {1}}, {.max_tokens = 3, .rules = {.processors = {refuses}}});
  EXPECT_EQ(tokens_of(refused), (Texts{{1}, {2, 3, 0}}));
  EXPECT_EQ(refused[0].failure, "enough");
  EXPECT_EQ(refused[1].ending, Ending::length);
}

TEST(Generate, WhatTheModelThrowsKeepsTheTextSoFar) {
  const ToyModel<> model{10, [](auto, std::span<const Id> text) {
                           ensure(text.size() < 5, "toy", "position ", text.size(), " is past the last of 5");
                           return counting(10).rule({}, text);
                         }};
  Context ctx;
  const auto results = generate(ctx, model, {{1}, {3, 4}, {8}}, {.max_tokens = 9, .eos = {9}});
  EXPECT_EQ(tokens_of(results), (Texts{{2, 3, 4}, {5, 6, 7}, {}}));
  EXPECT_EQ(results[2].ending, Ending::eos);
  for (const std::size_t i : {0u, 1u}) {
    EXPECT_EQ(results[i].ending, Ending::failed);
    EXPECT_EQ(results[i].failure, "[toy] position 5 is past the last of 5");
  }
  EXPECT_EQ(error_of([&] {
              generate(ctx, model, {{1, 2, 3, 4, 5}});
            }),
            "[toy] position 5 is past the last of 5")
      << "there is no text yet";
}

TEST(Generate, WhatTheUserThrowsArrivesAsItIs) {
  const auto model = counting(10);
  Context ctx(Threads(2));
  struct Mine {};
  const auto before = tokens_of(generate(ctx, model, {{1}, {5}}, {.max_tokens = 4}));
  int shown = 0;
  EXPECT_THROW(generate(ctx, model, {{1}, {5}},
                        {.max_tokens = 4,
                         .on_token = [&](Index, Id) -> bool {
                           if (++shown == 3) throw Mine();
                           return true;
                         }}),
               Mine);
  EXPECT_EQ(shown, 3);
  const Processor throws([](const DecodeStep& at, auto) {
    if (at.generated == 2) throw Mine();
  });
  EXPECT_THROW(generate(ctx, model, {{1}, {5}}, {.max_tokens = 4, .rules = {.processors = {throws}}}), Mine);
  const Processor fails([](const DecodeStep&, auto) { fail("mine", "no"); });
  EXPECT_EQ(error_of([&] { generate(ctx, model, {{1}, {5}}, {.rules = {.processors = {fails}}}); }), "[mine] no");
  EXPECT_EQ(tokens_of(generate(ctx, model, {{1}, {5}}, {.max_tokens = 4})), before);
}

TEST(Generate, ForcedAgainstTheModel) {
  const ToyModel<> model{3, [](auto, auto) { return std::vector<double>{0, -HUGE_VAL, -HUGE_VAL}; }};
  Context ctx;
  const auto result =
      generate(ctx, model, {{0}}, {.max_tokens = 3, .rules = {.forced = {{1, 2}}}, .log_probabilities = true})[0];
  EXPECT_EQ(result.tokens, (std::vector<Id>{0, 2, 0}));
  EXPECT_EQ(result.log_probabilities, (std::vector<double>{0, -HUGE_VAL, 0}));
}

TEST(Generate, BadSettingsRunNothing) {
  const ToyModel<> model{5, hashed(5, 1, 1)};
  Context ctx;
  const auto error = [&](const GenerateConfig& config, const Texts& prompts = {{1}, {2}}) {
    return error_of([&] { generate(ctx, model, prompts, config); });
  };
  EXPECT_EQ(error({.max_tokens = -1}),
            "[decode] max_tokens -1 is invalid: must be in 0…" + std::to_string(largest_index));
  EXPECT_EQ(error({.max_tokens = 3, .min_tokens = 4}), "[decode] min_tokens 4 is invalid: must be in 0…3");
  EXPECT_EQ(error({.eos = {-2}}), "[decode] there is no token -2");
  EXPECT_EQ(error({.stops = {{1}, {}}}), "[generate] an empty stop sequence");
  EXPECT_EQ(error({.prefixes = {{1}}}), "[decode] 1 prefixes for 2 sequences");
  EXPECT_EQ(error({.sampling = Sampling{.temperature = -1}}),
            "[decode] temperature -1 is invalid: must be in [0, inf)");
  EXPECT_EQ(error({.sampling = Sampling{.top_k = -1}}),
            "[decode] top_k -1 is invalid: must be in 0…" + std::to_string(largest_index));
  EXPECT_EQ(error({.sampling = Sampling{.top_p = 1.5}}),
            "[decode] top_p 1.5 is invalid: must be in [0, 1.0000000000000002)");
  EXPECT_EQ(error({.sampling = Sampling{.min_p = -0.5}}),
            "[decode] min_p -0.5 is invalid: must be in [0, 1.0000000000000002)");
  EXPECT_EQ(error({.rules = {.repetition_penalty = 0}}),
            "[decode] repetition_penalty 0 is invalid: must be in [2.2250738585072014e-308, inf)");
  EXPECT_EQ(error({.rules = {.no_repeat = -1}}),
            "[decode] no_repeat -1 is invalid: must be in 0…" + std::to_string(largest_index));
  EXPECT_EQ(error({.rules = {.forced = {{-1, 2}}}}),
            "[decode] step -1 is invalid: must be in 0…" + std::to_string(largest_index));
  EXPECT_EQ(error({.chunk = 0}), "[decode] chunk 0 is invalid: must be in 1…" + std::to_string(largest_index));
  EXPECT_EQ(error({}, {{1}, {}}), "[decode] prompt 1 is empty, and there is no bos token");
  Tape tape;
  ctx.tape = &tape;
  EXPECT_EQ(error({}), "[generate] decoding is neither recorded nor with dropout");
  ctx.tape = nullptr;
  EXPECT_TRUE(model.passes.empty());
  bool called = false;
  EXPECT_EQ(error({.rules = {.suppressed = {5}}, .on_token = [&](Index, Id) { return called = true; }}),
            "[decode] token 5 is not in a vocabulary of 5");
  EXPECT_FALSE(called);
}

}  // namespace
}  // namespace eigenformer::test
