// Speculative decoding: whatever a draft proposes, the text is the one without it, bit for bit, and comes in fewer
// passes where the proposals are good.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "decode/toy_model.hpp"
#include "eigenformer/block/pre_norm.hpp"
#include "eigenformer/core/initialize.hpp"
#include "eigenformer/decode/generate.hpp"
#include "eigenformer/model/decoders.hpp"
#include "eigenformer/model/encoder_decoder.hpp"
#include "eigenformer/op/weight.hpp"
#include "eigenformer/pretrained/llama2c.hpp"
#include "support/error.hpp"
#include "support/shared_data.hpp"
#include "support/tensors.hpp"

namespace eigenformer::test {
namespace {

constexpr Index toy_words = 12;
const Texts speculative_prompts{{3}, {1, 4, 1, 5, 9, 2, 6}, {2, 7, 1}, {8, 2, 8, 1, 8}};

/// The logits of a model, and some noise.
ToyRule disturbed(ToyRule rule, Index vocabulary, double noise) {
  return [=, other = hashed(vocabulary, 77, noise)](std::span<const Id> source, std::span<const Id> text) {
    std::vector<double> logits = rule(source, text);
    const std::vector<double> added = other(source, text);
    for (std::size_t v = 0; v < logits.size(); ++v) logits[v] += added[v];
    return logits;
  };
}

struct DraftCount {
  Index proposed = 0, accepted = 0;
};

/// A draft changes nothing but the number of passes → what it proposed, of all texts.
template <class Run>
DraftCount expect_same_texts(const Run& run, GenerateConfig config, const Draft& draft, Index tokens) {
  config.log_probabilities = true;
  using Shown = std::vector<std::vector<Id>>;
  const auto shown_by = [&](Shown& shown) {
    return [&, ends = config.on_token](Index sequence, Id token) {
      if (shown.size() <= static_cast<std::size_t>(sequence)) shown.resize(static_cast<std::size_t>(sequence) + 1);
      shown[static_cast<std::size_t>(sequence)].push_back(token);
      return !ends || ends(sequence, token);
    };
  };
  Shown shown, shown_drafted;
  GenerateConfig plain = config, drafted = config;
  plain.on_token = shown_by(shown);
  drafted.on_token = shown_by(shown_drafted);
  drafted.draft = draft;
  drafted.draft_tokens = tokens;
  const std::vector<Generated> want = run(plain), got = run(drafted);
  EXPECT_EQ(want.size(), got.size());
  EXPECT_EQ(shown, shown_drafted);
  DraftCount count;
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(got[i].tokens, want[i].tokens) << i;
    EXPECT_EQ(got[i].log_probabilities, want[i].log_probabilities) << i;
    EXPECT_EQ(got[i].ending, want[i].ending) << i;
    EXPECT_EQ(got[i].failure, want[i].failure) << i;
    EXPECT_EQ(want[i].proposed, 0);
    EXPECT_LE(got[i].accepted, got[i].proposed);
    count.proposed += got[i].proposed;
    count.accepted += got[i].accepted;
  }
  return count;
}

std::vector<std::pair<std::string, GenerateConfig>> settings() {
  const Sampling drawn{.temperature = 1.3, .top_k = 8, .top_p = 0.95, .min_p = 0.01, .seed = 3};
  return {{"greedy", {.max_tokens = 23}},
          {"one token", {.max_tokens = 1}},
          {"two tokens", {.max_tokens = 2}},
          {"drawn", {.max_tokens = 23, .sampling = drawn}},
          {"eos", {.max_tokens = 40, .eos = {5, 7}, .sampling = drawn}},
          {"eos, greedy", {.max_tokens = 40, .eos = {5}}},
          {"least lengths", {.max_tokens = 40, .min_tokens = 9, .eos = {5, 7}, .stops = {{3}}, .sampling = drawn}},
          {"stops", {.max_tokens = 40, .stops = {{3, 1}, {9}, {4, 4}}, .sampling = drawn}},
          {"rules",
           {.max_tokens = 30,
            .eos = {7},
            .bos = 2,
            .prefixes = {{8, 9}, {}, {1, 9, 4, 4, 4}, {3}},
            .sampling = drawn,
            .rules = {.repetition_penalty = 1.2, .no_repeat = 3, .suppressed = {4}, .forced = {{6, 2}, {7, 4}}},
            .first_sequence = 3,
            .chunk = 2}},
          {"callback", {.max_tokens = 20, .on_token = [](Index sequence, Id token) { return sequence < token; }}}};
}

TEST(Speculative, ToyTextsAreTheSame) {
  const ToyModel<> model{toy_words, hashed(toy_words, 1, 5)}, similar{toy_words, disturbed(model.rule, toy_words, 1.5)},
      other{toy_words, hashed(toy_words, 2, 5)};
  const ToyModel<double> wide{toy_words, disturbed(model.rule, toy_words, 1)};
  const std::vector<std::pair<std::string, Draft>> drafts{
      {"itself", &model},
      {"similar", &similar},
      {"of doubles", &wide},
      {"another", &other},
      {"look-up", LookUp{}},
      {"nothing", [](const DecodeStep&, Index, std::vector<Id>&) {}},
      {"now and then",
       [turn = 0](const DecodeStep& at, Index most, std::vector<Id>& proposed) mutable {
         if (++turn % 3 == 0) LookUp{.shortest = 1}(at, most, proposed);
       }},
      {"too much", [](const DecodeStep&, Index most, std::vector<Id>& proposed) {
         for (Id id = 0; id < most + 5; ++id) proposed.push_back(static_cast<Id>(id % toy_words));
       }}};
  Context ctx, threaded(Threads(3));
  DraftCount similar_count;
  for (const auto& [what, config] : settings())
    for (const auto& [name, draft] : drafts)
      for (const Index tokens : {0, 1, 2, 4, 11}) {
        SCOPED_TRACE(what + ", " + name + ", " + std::to_string(tokens));
        const DraftCount count = expect_same_texts(
            [&](const GenerateConfig& with) {
              return generate(tokens == 2 ? threaded : ctx, model, speculative_prompts, with);
            },
            config, draft, tokens);
        if (tokens == 0 || name == "nothing") {
          EXPECT_EQ(count.proposed, 0);
        }
        if (name == "itself" && what != "callback" && what != "stops" && what != "least lengths") {
          EXPECT_EQ(count.accepted, count.proposed) << "the same model by the same numbers chooses the same";
        }
        if (name == "similar") similar_count.proposed += count.proposed, similar_count.accepted += count.accepted;
        if (HasFailure()) return;
      }
  EXPECT_GT(similar_count.accepted, similar_count.proposed / 4);
  EXPECT_LT(similar_count.accepted, similar_count.proposed / 4 * 3);
}

TEST(Speculative, AGoodDraftSavesPasses) {
  const ToyModel<> model{toy_words, hashed(toy_words, 1, 5)}, twin = model;
  Context ctx;
  const auto result = generate(ctx, model, {{3, 1}}, {.max_tokens = 21, .draft = &twin, .draft_tokens = 4})[0];
  EXPECT_EQ(model.passes.size(), 5u) << "the prompt gives one token, each other pass five";
  EXPECT_EQ(twin.passes.size(), 16u);
  EXPECT_EQ(twin.passes[0].tokens, 3) << "it reads the prompt once, and the model's first token";
  EXPECT_EQ(result.proposed, 16);
  EXPECT_EQ(result.accepted, 16);
  EXPECT_EQ(result.tokens.size(), 21u);
  for (std::size_t i = 1; i < model.passes.size(); ++i) EXPECT_EQ(model.passes[i].tokens, 5);
  // One token is wanted when 22 are: none is proposed for it. Nothing is proposed behind an eos token.
  EXPECT_EQ(generate(ctx, model, {{3, 1}}, {.max_tokens = 22, .draft = &twin, .draft_tokens = 4})[0].proposed, 16);
  const Id fourth = result.tokens[3];
  const auto ended = generate(ctx, model, {{3, 1}}, {.max_tokens = 21, .eos = {fourth}, .draft = &twin})[0];
  EXPECT_EQ(ended.ending, Ending::eos);
  const auto first = std::find(result.tokens.begin(), result.tokens.end(), fourth) - result.tokens.begin();
  EXPECT_EQ(ended.accepted, (std::max)(first - 1, std::ptrdiff_t{0}));
}

TEST(Speculative, LookUpContinuesTheLongestAndLatestMatch) {
  const auto proposed = [](std::vector<Id> text, Index most, const LookUp& look_up = {}) {
    std::vector<Id> ids;
    look_up({.tokens = text}, most, ids);
    return ids;
  };
  EXPECT_EQ(proposed({1, 2, 3, 4, 5, 1, 2, 3}, 2), (std::vector<Id>{4, 5}));
  EXPECT_EQ(proposed({1, 2, 7, 9, 2, 8, 1, 2}, 2), (std::vector<Id>{7, 9}))
      << "two tokens match, of one not the latest";
  EXPECT_EQ(proposed({1, 2, 7, 9, 2, 8, 1, 2}, 2, {.longest = 1, .shortest = 1}), (std::vector<Id>{8, 1}))
      << "the latest";
  EXPECT_EQ(proposed({4, 5, 6, 5, 6}, 7), (std::vector<Id>{5, 6, 5, 6, 5, 6, 5})) << "a period goes on";
  EXPECT_EQ(proposed({1, 2, 3}, 4), std::vector<Id>{});
  EXPECT_EQ(proposed({1, 2, 1}, 4), std::vector<Id>{});
  EXPECT_EQ(proposed({1, 2, 1}, 4, {.shortest = 1}), (std::vector<Id>{2, 1, 2, 1}));
  EXPECT_EQ(proposed({1}, 4), std::vector<Id>{});
  EXPECT_EQ(proposed({}, 4), std::vector<Id>{});
}

TEST(Speculative, LookUpSavesPassesWhereATextRepeatsItself) {
  std::vector<std::vector<double>> rows(6, std::vector<double>(6, 0.0));  // 0 1 2 3 4 5 0 1 …
  for (std::size_t t = 0; t < 6; ++t) rows[t][(t + 1) % 6] = 1;
  const ToyModel<> model{6, table(rows)};
  Context ctx;
  const auto result = generate(ctx, model, {{0, 1, 2, 3, 4, 5, 0}}, {.max_tokens = 31, .draft = LookUp{}})[0];
  EXPECT_EQ(result.accepted, 24);
  EXPECT_EQ(model.passes.size(), 7u);
}

// Processors of the user are asked once for each token of the text, in its order, and never about what was only
// proposed.
TEST(Speculative, ProcessorsSeeTheTextAlone) {
  const ToyModel<> model{toy_words, hashed(toy_words, 1, 5)}, similar{toy_words, disturbed(model.rule, toy_words, 2)};
  std::vector<std::vector<std::vector<Id>>> seen(4);
  const Processor note([&](const DecodeStep& at, auto logits) {
    seen[static_cast<std::size_t>(at.sequence)].emplace_back(at.tokens.begin(), at.tokens.end());
    logits[static_cast<std::size_t>(at.generated % toy_words)] += 1;
    if (at.sequence == 2 && at.generated == 13) throw SequenceError("[mine] enough");
  });
  GenerateConfig config{.max_tokens = 25, .eos = {5}, .rules = {.processors = {note}}};
  Context ctx(Threads(2));
  const auto plain = generate(ctx, model, speculative_prompts, config);
  const auto seen_plain = std::exchange(seen, decltype(seen)(4));
  config.draft = &similar;
  const auto drafted = generate(ctx, model, speculative_prompts, config);
  EXPECT_EQ(seen, seen_plain);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(drafted[i].tokens, plain[i].tokens);
  EXPECT_EQ(drafted[2].failure, plain[2].failure);
}

// Logits that are none end a text where it comes to them, not where a draft did; those of the draft are no proposal.
TEST(Speculative, FailuresAreThoseWithoutADraft) {
  const ToyModel<> model{toy_words,
                         [rule = hashed(toy_words, 1, 5)](std::span<const Id> source, std::span<const Id> text) {
                           auto logits = rule(source, text);
                           if (text.back() == 4) logits[3] = std::nan("");
                           return logits;
                         }};
  const ToyModel<> similar{toy_words, [&](std::span<const Id> source, std::span<const Id> text) {
                             auto logits = disturbed(hashed(toy_words, 1, 5), toy_words, 1.5)(source, text);
                             if (text.back() == 6) logits[1] = HUGE_VAL;
                             return logits;
                           }};
  Context ctx;
  const auto run = [&](const GenerateConfig& with) { return generate(ctx, model, speculative_prompts, with); };
  for (std::uint64_t seed = 0; seed < 4; ++seed)
    for (const Draft& draft : {Draft(&similar), Draft(&model), Draft(LookUp{})})
      expect_same_texts(run, {.max_tokens = 30, .sampling = Sampling{.seed = seed}}, draft, 5);
  EXPECT_EQ(run({.max_tokens = 30, .draft = &similar})[0].ending, Ending::failed);
}

TEST(Speculative, WhatTheDraftThrowsArrivesAsItIs) {
  const ToyModel<> model{toy_words, hashed(toy_words, 1, 5)}, narrow{toy_words - 1, hashed(toy_words - 1, 1, 5)};
  Context ctx;
  const auto error = [&](const Draft& draft, Index tokens = 4) {
    return error_of([&] { generate(ctx, model, {{1}, {2, 3}}, {.draft = draft, .draft_tokens = tokens}); });
  };
  EXPECT_EQ(error(&narrow), "[draft] a vocabulary of 11, but the model's is 12");
  for (const Id id : {Id{12}, Id{-1}})
    EXPECT_EQ(error([id](const DecodeStep&, Index, std::vector<Id>& to) { to.push_back(id); }),
              "[draft] token " + std::to_string(id) + " is not in a vocabulary of 12");
  EXPECT_EQ(error([](const DecodeStep&, Index, std::vector<Id>&) { fail("mine", "no"); }), "[mine] no");
  EXPECT_EQ(error_of([] { Draft(static_cast<const ToyModel<>*>(nullptr)); }), "[draft] there is no model");
  EXPECT_EQ(error(&model, -1), "[generate] draft_tokens -1 is invalid: must be in 0…" + std::to_string(largest_index));
  EXPECT_EQ(error_of([] { Draft(LookUp{.longest = 0}); }),
            "[draft] longest 0 is invalid: must be in 1…" + std::to_string(largest_index));
  EXPECT_EQ(error_of([] { Draft(LookUp{.longest = 2, .shortest = 3}); }),
            "[draft] shortest 3 is invalid: must be in 1…2");
  Gpt2<float> short_draft({.vocabulary = 12, .max_positions = 9, .layers = 1, .block = {.width = 8, .heads = 2}});
  randomize(short_draft, 1);
  EXPECT_EQ(error_of([&] {
              generate(ctx, model, {{1}, {2, 3}}, {.max_tokens = 9, .draft = &short_draft});
            }),
            "[draft] text 1: 2 tokens and 9 more are too many for the model's 9 positions");
  EXPECT_EQ(generate(ctx, model, {{1}, {2, 3}}, {.max_tokens = 8, .draft = &short_draft, .draft_tokens = 20})[1].tokens,
            generate(ctx, model, {{1}, {2, 3}}, {.max_tokens = 8})[1].tokens);
}

template <class Model>
Model random_decoder(Index layers, std::uint64_t seed, Index window = 0) {
  typename Model::Config config{.vocabulary = 40, .layers = layers};
  config.block = {.width = 16, .hidden = 24, .heads = 4, .dropout = 0};
  config.block.attention.window = window;
  Model model(config);
  randomize(model, seed);
  return model;
}

/// The model, but for what weights its last layers have.
template <class Model>
Model first_layers(const Model& model, Index layers) {
  auto config = model.config;
  config.layers = layers;
  Model smaller(config);
  smaller.embedding = model.embedding;
  smaller.position = model.position;
  for (std::size_t i = 0; i < smaller.decoder.blocks.size(); ++i) smaller.decoder.blocks[i] = model.decoder.blocks[i];
  smaller.decoder.norm = model.decoder.norm;
  smaller.head = model.head;
  return smaller;
}

template <class Model>
void expect_same_by_models(Index window) {
  const auto model = random_decoder<Model>(2, 3, window), smaller = first_layers(model, 1),
             other = random_decoder<Model>(1, 5, window);
  Context ctx(Threads(2));
  const auto run = [&](const GenerateConfig& with) { return generate(ctx, model, speculative_prompts, with); };
  DraftCount all;
  for (const auto& sampling : {std::optional<Sampling>(), std::optional(Sampling{.temperature = 0.7, .top_k = 20}),
                               std::optional(Sampling{.temperature = 0.3, .top_p = 0.9, .seed = 2})})
    for (const Draft& draft : {Draft(&smaller), Draft(&other), Draft(&model), Draft(LookUp{})})
      for (const Index tokens : {1, 4}) {
        const DraftCount count = expect_same_texts(
            run, {.max_tokens = 60, .eos = {7}, .stops = {{3, 5}}, .sampling = sampling, .chunk = 3}, draft, tokens);
        all.proposed += count.proposed, all.accepted += count.accepted;
      }
  EXPECT_GT(all.accepted, all.proposed / 10);
  EXPECT_LT(all.accepted, all.proposed);
}

TEST(Speculative, ModelsSayTheSame) {
  expect_same_by_models<Llama<float>>(0);
  expect_same_by_models<Llama<double>>(0);
  expect_same_by_models<Gpt2<float>>(0);
  expect_same_by_models<Bloom<float>>(0);
}

TEST(Speculative, ModelsWithWindowsSayTheSame) {
  expect_same_by_models<Mistral<float>>(1);
  expect_same_by_models<Mistral<float>>(5);
}

// Products of packed formats have the same bits for any number of rows, and caches of formats keep each token alone; a
// coarser copy is the model's own draft.
TEST(Speculative, FormatsSayTheSame) {
  const auto model = random_decoder<Llama<float>>(2, 3);
  Context ctx(Threads(2));
  auto coarse = model;
  pack(ctx, coarse, {.format = Format::int4});
  for (const Format format : {Format::f16, Format::bf16, Format::int8, Format::int4}) {
    auto packed = model;
    pack(ctx, packed, {.format = format, .keep_values = false});
    const auto run = [&](const GenerateConfig& with) { return generate(ctx, packed, speculative_prompts, with); };
    for (const auto& sampling : {std::optional<Sampling>(), std::optional(Sampling{.temperature = 0.5})})
      for (const Draft& draft : {Draft(&coarse), Draft(&model), Draft(LookUp{})})
        for (const Format cache : {Format::scalar, Format::bf16, Format::int8})
          expect_same_texts(run, {.max_tokens = 60, .eos = {7}, .sampling = sampling, .cache = cache}, draft, 4);
  }
}

// Beyond the blocks of the cache, which a window leaves behind: in the model, and in the draft, which goes back by more
// than its last pass.
TEST(Speculative, LongTextsSayTheSame) {
  constexpr Index block = kernel::key_block<float>;
  for (const Index window : {Index{0}, Index{3}, Index{100}, block + 1}) {
    const auto model = random_decoder<Mistral<float>>(2, 3, window), smaller = first_layers(model, 1);
    Context ctx;
    std::vector<std::vector<Id>> prompts(2);
    RandomSequence random(1);
    for (Index n = 0; n < 2 * block - 30; ++n) prompts[0].push_back(static_cast<Id>(random.below(40)));
    prompts[1].assign(prompts[0].begin(), prompts[0].begin() + 3 * block / 2 - 20);
    const auto run = [&](const GenerateConfig& with) { return generate(ctx, model, prompts, with); };
    const DraftCount count =
        expect_same_texts(run, {.max_tokens = 60 + block / 2, .sampling = Sampling{.temperature = 0.5}}, &smaller, 6);
    EXPECT_GT(count.accepted, 20);
    EXPECT_LT(count.accepted, count.proposed - 20);
    expect_same_texts(run, {.max_tokens = 60 + block / 2}, LookUp{.longest = 2}, 7);
  }
}

// An encoder–decoder takes any draft of its target text, such as one that knows translations already.
TEST(Speculative, EncoderDecodersSayTheSame) {
  EncoderDecoder<PreNorm<float>> model(
      EncoderDecoder<>::Config{.source_vocabulary = 40,
                               .target_vocabulary = 40,
                               .encoder_layers = 1,
                               .decoder_layers = 2,
                               .block = {.width = 16, .hidden = 24, .heads = 4, .dropout = 0}});
  randomize(model, 5);
  const auto source = random_ids(Shape{4, 9}, 0, 40, 1);
  const auto source_lengths = lengths({9, 2, 1, 5});
  Context ctx(Threads(2));
  const auto run = [&](const GenerateConfig& with) { return generate(ctx, model, source, source_lengths, with); };
  const GenerateConfig greedy{.max_tokens = 50, .eos = {7}, .bos = 1},
      drawn{.max_tokens = 50, .eos = {7}, .bos = 1, .sampling = Sampling{.temperature = 0.5, .seed = 1}};
  const auto known = run(greedy);
  const auto memory = [&](const DecodeStep& at, Index most, std::vector<Id>& proposed) {
    const auto& text = known[static_cast<std::size_t>(at.sequence)].tokens;
    const auto begin = (std::min)(static_cast<Index>(text.size()), at.generated),
               end = (std::min)(static_cast<Index>(text.size()), at.generated + most);
    proposed.insert(proposed.end(), text.begin() + begin, text.begin() + end);
  };
  const auto decoder = random_decoder<Llama<float>>(1, 1);
  const DraftCount count = expect_same_texts(run, greedy, memory, 4);
  EXPECT_GT(count.accepted, 20);
  EXPECT_EQ(count.accepted, count.proposed);
  for (const GenerateConfig& config : {greedy, drawn})
    for (const Draft& draft : {Draft(LookUp{}), Draft(memory), Draft(&decoder)})
      expect_same_texts(run, config, draft, 3);
}

// A story model, as it is and as its own draft of fewer layers. Skipped where its files are not there.
TEST(Speculative, StoriesAreTheSame) {
  const auto file = shared_data() / "stories260K" / "stories260K.bin";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << "the files are not here";
  auto model = load_llama2c(file).model;
  auto smaller = first_layers(model, model.config.layers - 1), coarse = model;
  Context ctx(Threads(2));
  pack(ctx, model), pack(ctx, smaller), pack(ctx, coarse, {.format = Format::int4});
  const std::vector<std::vector<Id>> prompts{{1}, {1, 403, 407, 261, 378}, {1, 310, 432, 317}};
  const auto run = [&](const GenerateConfig& with) { return generate(ctx, model, prompts, with); };
  for (const auto& sampling : {std::optional<Sampling>(), std::optional(Sampling{.temperature = 0.8, .top_k = 40}),
                               std::optional(Sampling{.top_p = 0.9, .seed = 7})})
    for (const auto& [draft, least] :
         {std::pair{Draft(&coarse), 0.4}, {Draft(&smaller), 0.1}, {Draft(LookUp{}), 0.0}}) {
      const DraftCount count =
          expect_same_texts(run, {.max_tokens = 100, .eos = {1, 2}, .sampling = sampling}, draft, 4);
      EXPECT_GT(static_cast<double>(count.accepted), least * static_cast<double>(count.proposed));
      EXPECT_LT(count.accepted, count.proposed);
    }
}

}  // namespace
}  // namespace eigenformer::test
