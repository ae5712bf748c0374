// Decoding from the library's own models: their states, batches and full passes must agree.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "eigenformer/block/pre_norm.hpp"
#include "eigenformer/core/initialize.hpp"
#include "eigenformer/decode/beam.hpp"
#include "eigenformer/decode/generate.hpp"
#include "eigenformer/decode/score.hpp"
#include "eigenformer/model/decoders.hpp"
#include "eigenformer/model/encoder_decoder.hpp"
#include "eigenformer/train/trainer.hpp"
#include "support/error.hpp"
#include "support/tensors.hpp"

namespace eigenformer::test {
namespace {

using Sentences = std::vector<std::vector<Id>>;

Llama<float> decoding_decoder() {
  Llama<float> model({.vocabulary = 40,
                      .layers = 2,
                      .block = {.width = 16, .hidden = 24, .heads = 4, .dropout = 0, .attention = {.kv_heads = 2}}});
  randomize(model, 3);
  return model;
}
EncoderDecoder<PreNorm<float>> decoding_encoder_decoder() {
  EncoderDecoder<PreNorm<float>> model(
      EncoderDecoder<>::Config{.source_vocabulary = 40,
                               .target_vocabulary = 40,
                               .encoder_layers = 1,
                               .decoder_layers = 2,
                               .block = {.width = 16, .hidden = 24, .heads = 4, .dropout = 0}});
  randomize(model, 5);
  return model;
}
const Sentences decoding_prompts{{3}, {1, 4, 1, 5, 9, 2, 6, 5, 3, 5}, {2, 7, 1}, {8, 2, 8, 1, 8}};

/// Text, and its end token if it has one.
std::vector<Id> with_end(std::vector<Id> tokens, bool ended, Id end) {
  if (ended) tokens.push_back(end);
  return tokens;
}

TEST(DecodeModels, DecoderTextsHaveTheProbabilitiesOfAFullPass) {
  const auto model = decoding_decoder();
  Context ctx;
  const auto drawn =
      generate(ctx, model, decoding_prompts,
               {.max_tokens = 30, .eos = {7}, .sampling = Sampling{.seed = 1}, .log_probabilities = true, .chunk = 3});
  const auto searched =
      beam_search(ctx, model, decoding_prompts,
                  {.max_tokens = 12, .eos = {7}, .beams = 4, .n_best = 3, .penalty = LengthPenalty::power});
  const auto expect_same_bits = [&](std::size_t i, const std::vector<Id>& tokens,
                                    const std::vector<double>& log_probabilities) {
    std::vector<Id> whole = decoding_prompts[i];
    whole.insert(whole.end(), tokens.begin(), tokens.end());
    const auto full = score(ctx, model, {whole})[0].log_probabilities;
    EXPECT_EQ(log_probabilities, std::vector<double>(full.end() - static_cast<Index>(tokens.size()), full.end()));
  };
  for (std::size_t i = 0; i < decoding_prompts.size(); ++i) {
    expect_same_bits(i, with_end(drawn[i].tokens, drawn[i].ending == Ending::eos, 7), drawn[i].log_probabilities);
    EXPECT_EQ(searched[i].size(), 3u);
    for (const Hypothesis& each : searched[i])
      expect_same_bits(i, with_end(each.tokens, each.ended, 7), each.log_probabilities);
  }
}

TEST(DecodeModels, EncoderDecoderTextsHaveTheProbabilitiesOfAFullPass) {
  const auto model = decoding_encoder_decoder();
  const auto source = random_ids(Shape{4, 9}, 0, 40, 1);
  const auto source_lengths = lengths({9, 2, 1, 5});
  Context ctx;
  const auto drawn =
      generate(ctx, model, source, source_lengths,
               {.max_tokens = 30, .eos = {7}, .bos = 1, .sampling = Sampling{.seed = 1}, .log_probabilities = true});
  const auto searched = beam_search(
      ctx, model, source, source_lengths,
      {.max_tokens = 12, .eos = {7}, .bos = 1, .beams = 4, .n_best = 3, .penalty = LengthPenalty::wu, .alpha = 0.6});
  const auto expect_same_bits = [&](Index i, const std::vector<Id>& tokens,
                                    const std::vector<double>& log_probabilities) {
    const auto alone = source.view().slice(0, i, 1).slice(1, 0, source_lengths(i));
    EXPECT_EQ(log_probabilities, score(ctx, model, alone, {}, {tokens}, {.bos = 1})[0].log_probabilities);
  };
  for (Index i = 0; i < 4; ++i) {
    const Generated& text = drawn[static_cast<std::size_t>(i)];
    expect_same_bits(i, with_end(text.tokens, text.ending == Ending::eos, 7), text.log_probabilities);
    EXPECT_EQ(searched[static_cast<std::size_t>(i)].size(), 3u);
    for (const Hypothesis& each : searched[static_cast<std::size_t>(i)])
      expect_same_bits(i, with_end(each.tokens, each.ended, 7), each.log_probabilities);
  }
}

TEST(DecodeModels, GreedyIsTheLargestLogitOfFullPasses) {
  const auto model = decoding_decoder();
  Context ctx;
  const auto results = generate(ctx, model, decoding_prompts, {.max_tokens = 90});
  for (std::size_t i = 0; i < decoding_prompts.size(); ++i) {
    std::vector<Id> ids = decoding_prompts[i];
    ASSERT_EQ(results[i].tokens.size(), 90u);
    for (const Id id : results[i].tokens) {
      const auto logits =
          model(ctx, {.ids = ConstView<Id, 2>(ids.data(), Shape{Index{1}, static_cast<Index>(ids.size())})});
      const float* const row = &logits(0, logits.extent(1) - 1, 0);
      ASSERT_EQ(id, static_cast<Id>(std::max_element(row, row + 40) - row)) << ids.size();
      ids.push_back(id);
      ctx.reset();
    }
  }
}

TEST(DecodeModels, EachOfABatchIsItselfAloneOnAnyThreads) {
  const auto decoder = decoding_decoder();
  const auto both = decoding_encoder_decoder();
  const auto source = random_ids(Shape{4, 9}, 0, 40, 2);
  const auto source_lengths = lengths({3, 9, 0, 6});
  Context ctx, threaded(Threads(3));
  const GenerateConfig drawing{
      .max_tokens = 25, .eos = {7, 9}, .bos = 1, .sampling = Sampling{.temperature = 1.5, .top_p = 0.9, .seed = 4}};
  const BeamConfig searching{
      .max_tokens = 15, .eos = {7, 9}, .bos = 1, .beams = 3, .n_best = 2, .penalty = LengthPenalty::power};
  const auto drawn = generate(threaded, decoder, decoding_prompts, drawing),
             said = generate(threaded, both, source, source_lengths, drawing);
  const auto searched = beam_search(threaded, decoder, decoding_prompts, searching),
             translated = beam_search(threaded, both, source, source_lengths, searching);
  const auto expect_same_texts = [](const std::vector<Hypothesis>& a, const std::vector<Hypothesis>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t n = 0; n < a.size(); ++n) {
      EXPECT_EQ(a[n].tokens, b[n].tokens);
      EXPECT_EQ(a[n].log_probabilities, b[n].log_probabilities);
    }
  };
  for (std::size_t i = 0; i < 4; ++i) {
    const auto row = static_cast<Index>(i);
    const auto alone = source.view().slice(0, row, 1).slice(1, 0, source_lengths(row));
    GenerateConfig one = drawing;
    one.first_sequence = row;
    EXPECT_EQ(drawn[i].tokens, generate(ctx, decoder, {decoding_prompts[i]}, one)[0].tokens);
    EXPECT_EQ(said[i].tokens, generate(ctx, both, alone, {}, one)[0].tokens);
    expect_same_texts(searched[i], beam_search(ctx, decoder, {decoding_prompts[i]}, searching)[0]);
    expect_same_texts(translated[i], beam_search(ctx, both, alone, {}, searching)[0]);
  }
}

/// Sequences of 1 to 4 tokens 3…7, to be copied; 0 is padding, 1 begins, 2 ends.
struct CopyBatch {
  explicit CopyBatch(Index size, std::uint64_t seed)
      : source(Shape{size, 4}), target(Shape{size, 5}), labels(Shape{size, 5}), lengths(Shape{size}) {
    RandomSequence random(seed);
    for (Index b = 0; b < size; ++b) {
      lengths(b) = 1 + random.below(4);
      target(b, 0) = 1;
      for (Index n = 0; n < lengths(b); ++n)
        source(b, n) = target(b, n + 1) = labels(b, n) = static_cast<Id>(3 + random.below(5));
      labels(b, lengths(b)) = 2;
    }
  }
  std::vector<Id> sequence(Index b) const { return {&source(b, 0), &source(b, 0) + lengths(b)}; }

  Tensor<Id, 2> source, target, labels;  // (B, 4), (B, 5), (B, 5)
  Tensor<Index, 1> lengths;              // (B)
};

TEST(DecodeModels, CopyOnceTheyHaveLearntTo) {
  using Model = EncoderDecoder<PreNorm<float>>;
  Model model(EncoderDecoder<>::Config{.source_vocabulary = 8,
                                       .target_vocabulary = 8,
                                       .encoder_layers = 1,
                                       .decoder_layers = 1,
                                       .block = {.width = 32, .hidden = 64, .heads = 2, .dropout = 0}});
  initialize(model, 1);
  Trainer trainer(model, {.learning_rate = WarmUp{32, 100, 0.5}});
  for (std::uint64_t step = 0; step < 500; ++step) {
    const CopyBatch batch(32, step);
    trainer.accumulate([&](Context& ctx, const Model& m) {
      const auto logits = m(ctx, {.source = batch.source, .source_lengths = batch.lengths, .target = batch.target});
      return op::cross_entropy(ctx, logits, batch.labels, {.ignore = 0});
    });
    trainer.step();
  }
  const CopyBatch fresh(24, 1'000'000);
  Context ctx;
  const auto greedy =
      generate(ctx, trainer.model, fresh.source, fresh.lengths, {.max_tokens = 8, .eos = {2}, .bos = 1});
  const auto beams =
      beam_search(ctx, trainer.model, fresh.source, fresh.lengths, {.max_tokens = 8, .eos = {2}, .bos = 1});
  for (Index b = 0; b < 24; ++b) {
    EXPECT_EQ(greedy[static_cast<std::size_t>(b)].tokens, fresh.sequence(b)) << b;
    EXPECT_EQ(beams[static_cast<std::size_t>(b)][0].tokens, fresh.sequence(b)) << b;
  }
}

// One prompt between braces where several are taken: the same as a list of that one, whatever stands in it.
TEST(DecodeModels, ASinglePromptIsAListOfOne) {
  const auto decoder = decoding_decoder();
  const auto both = decoding_encoder_decoder();
  Context ctx;
  const GenerateConfig config{.max_tokens = 6, .bos = 1};
  const BeamConfig beams{.max_tokens = 6, .bos = 1, .beams = 2};
  const auto expect_all = [](const auto& got, const auto& want) {
    for (const auto& each : got) {
      ASSERT_EQ(each.size(), 1u);
      if constexpr (requires { each[0].tokens; }) EXPECT_EQ(each[0].tokens, want);
      else EXPECT_EQ(each[0][0].tokens, want);
    }
  };
  const std::vector<Id> prompt{1, 5, 7}, zeros{0, 0}, one{5};
  const auto expect_of = [&](const auto& model) {
    const auto text = [&](const std::vector<Id>& ids) {
      return generate(ctx, model, std::vector<std::vector<Id>>{ids}, config)[0].tokens;
    };
    const auto best = [&](const std::vector<Id>& ids) {
      return beam_search(ctx, model, std::vector<std::vector<Id>>{ids}, beams)[0][0].tokens;
    };
    expect_all(std::vector{generate(ctx, model, {1, 5, 7}, config), generate(ctx, model, {{1, 5, 7}}, config),
                           generate(ctx, model, prompt, config), generate(ctx, model, {prompt}, config),
                           generate(ctx, model, {1, 5, 7}, {.max_tokens = 6, .bos = 1})},
               text(prompt));
    expect_all(std::vector{generate(ctx, model, {5}, config), generate(ctx, model, {{5}}, config)}, text(one));
    expect_all(std::vector{generate(ctx, model, {0, 0}, config), generate(ctx, model, {{0, 0}}, config)}, text(zeros));
    expect_all(std::vector{beam_search(ctx, model, {1, 5, 7}, beams), beam_search(ctx, model, {{1, 5, 7}}, beams),
                           beam_search(ctx, model, prompt, beams)},
               best(prompt));
    expect_all(std::vector{beam_search(ctx, model, {0, 0}, {.max_tokens = 6, .bos = 1, .beams = 2}),
                           beam_search(ctx, model, {{0, 0}}, beams)},
               best(zeros));
    const auto two = generate(ctx, model, {{0, 0}, {5}}, config);
    ASSERT_EQ(two.size(), 2u);
    EXPECT_EQ(two[0].tokens, text(zeros));
    EXPECT_EQ(two[1].tokens, text(one));
    EXPECT_TRUE(generate(ctx, model, {}, config).empty());
    EXPECT_TRUE(generate(ctx, model, prompt, {.max_tokens = 0, .bos = 1})[0].tokens.empty());
  };
  expect_of(decoder);
  expect_of(both);
  EXPECT_EQ(generate(ctx, decoder, {1, 5, 7})[0].tokens.size(), 100u);
  const auto source = random_ids(Shape{1, 3}, 0, 40, 2);
  EXPECT_EQ(generate(ctx, both, {source(0, 0), source(0, 1), source(0, 2)}, config)[0].tokens,
            generate(ctx, both, source, {}, config)[0].tokens);
}

// A token whose embedding is no number spoils its own text, not its neighbours': neither those of a batch nor of a
// cache.
TEST(DecodeModels, OneThatFailsCostsTheOthersNothing) {
  Llama<float> decoder({.vocabulary = 40,
                        .layers = 2,
                        .block = {.width = 16, .hidden = 24, .heads = 4, .dropout = 0, .attention = {.kv_heads = 2}},
                        .tied = false});
  EncoderDecoder<PreNorm<float>> both(
      EncoderDecoder<>::Config{.source_vocabulary = 40,
                               .target_vocabulary = 40,
                               .encoder_layers = 1,
                               .decoder_layers = 2,
                               .block = {.width = 16, .hidden = 24, .heads = 4, .dropout = 0},
                               .sharing = Sharing::none});
  randomize(decoder, 3);
  randomize(both, 5);
  decoder.embedding.weight(11, 3) = both.embedding.weight(11, 3) = std::nanf("");
  const Sentences prompts{{3}, {1, 4, 11, 5, 9}, {2, 7, 1}, {8, 2, 8, 1, 8}};
  Context ctx, threaded(Threads(3));
  const BeamConfig searching{.max_tokens = 10, .bos = 1, .beams = 3, .n_best = 2};
  const auto expect_of = [&](const auto& model) {
    bool others = false;
    for (const bool drawn : {false, true}) {
      GenerateConfig config{.max_tokens = 10, .bos = 1};
      if (drawn) config.sampling = Sampling{.seed = 2};
      const auto together = generate(threaded, model, prompts, config);
      for (std::size_t i = 0; i < prompts.size(); ++i) {
        config.first_sequence = static_cast<Index>(i);
        const auto alone = generate(ctx, model, {prompts[i]}, config)[0];
        EXPECT_EQ(together[i].tokens, alone.tokens);
        EXPECT_EQ(together[i].failure, alone.failure);
        if (i == 1) EXPECT_EQ(alone.failure, "[decode] sequence 1, step 0: the logit of token 0 is not a number");
        else others = others || alone.tokens.size() == 10;
      }
    }
    EXPECT_TRUE(others);
    const auto searched = beam_search(threaded, model, prompts, searching);
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      const auto alone = beam_search(ctx, model, {prompts[i]}, searching)[0];
      ASSERT_EQ(searched[i].size(), alone.size());
      for (std::size_t n = 0; n < alone.size(); ++n) {
        EXPECT_EQ(searched[i][n].tokens, alone[n].tokens);
        EXPECT_EQ(searched[i][n].log_probabilities, alone[n].log_probabilities);
      }
      EXPECT_EQ(alone[0].failure.empty(), i != 1);
    }
  };
  expect_of(decoder);
  expect_of(both);
}

}  // namespace
// Positions that a model has not got are missed before it runs, not in the middle of a text.
TEST(DecodeModels, RoomForAllTokens) {
  Gpt2<float> model(
      {.vocabulary = 7, .max_positions = 6, .layers = 1, .block = {.width = 8, .hidden = 8, .heads = 2, .dropout = 0}});
  randomize(model, 1);
  Context ctx;
  Index shown = 0;
  const auto show = [&](Index, Id) { return ++shown > 0; };
  EXPECT_EQ(generate(ctx, model, {{1, 2}}, {.max_tokens = 5, .on_token = show})[0].tokens.size(), 5u);
  EXPECT_EQ(shown, 5);
  EXPECT_EQ(error_of([&] {
              generate(ctx, model, {{1}, {1, 2}}, {.max_tokens = 6, .on_token = show});
            }),
            "[decode] text 1: 2 tokens and 6 more are too many for the model's 6 positions");
  EXPECT_EQ(error_of([&] {
              beam_search(ctx, model, {{1, 2}}, {.max_tokens = 6});
            }),
            "[decode] text 0: 2 tokens and 6 more are too many for the model's 6 positions");
  EXPECT_EQ(shown, 5);
}

}  // namespace eigenformer::test
