// Scores of given texts against a softmax of all the logits of one full pass.
#include "eigenformer/decode/score.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "decode/toy_model.hpp"
#include "eigenformer/block/pre_norm.hpp"
#include "eigenformer/decode/generate.hpp"
#include "eigenformer/model/decoders.hpp"
#include "eigenformer/model/encoder_decoder.hpp"
#include "support/error.hpp"
#include "support/tensors.hpp"

namespace eigenformer::test {
namespace {

const Texts scored_texts{{3, 7, 1, 12}, {5}, {}, {9, 9, 2, 2, 0, 4, 11}, {1, 2}};

Llama<double> scoring_decoder(bool tied = true) {
  Llama<double> model({.vocabulary = 13,
                       .layers = 2,
                       .block = {.width = 16, .hidden = 24, .heads = 4, .dropout = 0, .attention = {.kv_heads = 2}},
                       .tied = tied});
  randomize(model, 3);
  return model;
}
EncoderDecoder<PreNorm<double>> scoring_encoder_decoder() {
  EncoderDecoder<PreNorm<double>> model(
      EncoderDecoder<>::Config{.source_vocabulary = 13,
                               .target_vocabulary = 13,
                               .encoder_layers = 1,
                               .decoder_layers = 2,
                               .block = {.width = 16, .hidden = 24, .heads = 4, .dropout = 0}});
  randomize(model, 4);
  return model;
}

/// log p of what comes after the first n tokens of a text.
double plain_log_probability(ConstView<double, 3> logits, Index n, Id token) {
  std::vector<double> row(&logits(0, n - 1, 0), &logits(0, n - 1, 0) + logits.extent(2));
  return log_softmax(row)[static_cast<std::size_t>(token)];
}

void expect_score(const Score& got, const std::vector<double>& want) {
  ASSERT_EQ(got.log_probabilities.size(), want.size());
  double sum = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_NEAR(got.log_probabilities[i], want[i], 1e-12);
    sum += want[i];
  }
  EXPECT_NEAR(got.sum, sum, 1e-12);
  EXPECT_NEAR(got.mean, want.empty() ? 0 : sum / static_cast<double>(want.size()), 1e-12);
}

TEST(Score, OfDecoders) {
  const auto model = scoring_decoder();
  Context ctx(Threads(2));
  for (const bool begins : {false, true}) {
    const std::optional<Id> begin = begins ? std::optional<Id>(6) : std::nullopt;
    const auto scores = score(ctx, model, scored_texts, {.bos = begin});
    for (std::size_t b = 0; b < scored_texts.size(); ++b) {
      std::vector<Id> whole = scored_texts[b];
      if (begins) whole.insert(whole.begin(), 6);
      std::vector<double> want;
      for (std::size_t n = 1; n < whole.size(); ++n) {
        const auto logits = model(ctx, {.ids = ConstView<Id, 2>(whole.data(), Shape{Index{1}, static_cast<Index>(n)})});
        want.push_back(plain_log_probability(logits, static_cast<Index>(n), whole[n]));
      }
      expect_score(scores[b], want);
    }
    for (const Index rows : {1, 2, 5}) {
      const auto pieces = score(ctx, model, scored_texts, {.bos = begin, .rows = rows});
      for (std::size_t b = 0; b < scored_texts.size(); ++b)
        EXPECT_EQ(pieces[b].log_probabilities, scores[b].log_probabilities) << rows;
    }
  }
  EXPECT_TRUE(score(ctx, model, Texts{}).empty());
}

TEST(Score, OfEncoderDecoders) {
  const auto model = scoring_encoder_decoder();
  const auto source = random_ids(Shape{5, 6}, 0, 13, 1);
  const auto source_lengths = lengths({6, 2, 1, 4, 3});
  Context ctx;
  const auto scores = score(ctx, model, source, source_lengths, scored_texts, {.bos = 6});
  for (std::size_t b = 0; b < scored_texts.size(); ++b) {
    const auto row = static_cast<Index>(b);
    std::vector<Id> whole = scored_texts[b];
    whole.insert(whole.begin(), 6);
    std::vector<double> want;
    for (std::size_t n = 1; n < whole.size(); ++n) {
      const auto logits =
          model(ctx, {.source = source.view().slice(0, row, 1).slice(1, 0, source_lengths(row)),
                      .target = ConstView<Id, 2>(whole.data(), Shape{Index{1}, static_cast<Index>(n)})});
      want.push_back(plain_log_probability(logits, static_cast<Index>(n), whole[n]));
    }
    expect_score(scores[b], want);
  }
}

TEST(Score, OneThatFailsCostsTheOthersNothing) {
  auto model = scoring_decoder(false);
  Context ctx(Threads(2));
  const auto whole = score(ctx, model, scored_texts);
  model.embedding.weight(2, 5) = std::nan("");
  const auto scores = score(ctx, model, scored_texts);
  for (std::size_t b = 0; b < scored_texts.size(); ++b) {
    EXPECT_EQ(scores[b].failure, b == 3 ? "[score] the logits of token 3 of text 3 are no distribution" : "");
    std::vector<double> want = whole[b].log_probabilities;
    if (b == 3) want.resize(2);  // 9 9 2 2 …: 9 and 2 after a 9; the 2 at the end of another text is not read
    EXPECT_EQ(scores[b].log_probabilities, want);
    EXPECT_EQ(scores[b].sum, b == 3 ? -HUGE_VAL : whole[b].sum);
    EXPECT_EQ(scores[b].mean, b == 3 ? -HUGE_VAL : whole[b].mean);
  }
}

TEST(Score, OfASingleText) {
  const auto decoder = scoring_decoder();
  const auto both = scoring_encoder_decoder();
  Context ctx;
  const auto single = score(ctx, decoder, {3, 7, 1}), list = score(ctx, decoder, {{3, 7, 1}}, {}),
             vector = score(ctx, decoder, std::vector<Id>{3, 7, 1});
  ASSERT_EQ(single.size(), 1u);
  EXPECT_EQ(single[0].log_probabilities.size(), 2u);
  EXPECT_EQ(single[0].log_probabilities, list[0].log_probabilities);
  EXPECT_EQ(single[0].log_probabilities, vector[0].log_probabilities);
  EXPECT_EQ(score(ctx, decoder, {0, 0}, {.bos = 1})[0].log_probabilities,
            score(ctx, decoder, {{0, 0}}, {.bos = 1})[0].log_probabilities);
  const auto source = matrix<Id>({{5, 6, 7}});
  const auto plain = score(ctx, both, source, {}, {{3, 7}}, {.bos = 1})[0].log_probabilities;
  EXPECT_EQ(score(ctx, both, source, {}, {3, 7}, {.bos = 1})[0].log_probabilities, plain);
  EXPECT_EQ(score(ctx, both, {5, 6, 7}, {3, 7}, {.bos = 1})[0].log_probabilities, plain);
  const auto two = score(ctx, both, {{5, 6, 7}, {8}}, {{3, 7}, {9, 9, 9}}, {.bos = 1});
  EXPECT_EQ(two[0].log_probabilities, plain);
  EXPECT_EQ(two[1].log_probabilities.size(), 3u);
}

TEST(Score, BadInput) {
  const auto decoder = scoring_decoder();
  const auto both = scoring_encoder_decoder();
  Context ctx;
  EXPECT_EQ(error_of([&] {
              score(ctx, decoder, {{1, 2}, {3, 13}});
            }),
            "[score] token 13 of text 1 is not in a vocabulary of 13");
  EXPECT_EQ(error_of([&] {
              score(ctx, decoder, {{1, 2}}, {.rows = 0});
            }),
            "[score] rows 0 is invalid: must be in 1…" + std::to_string(largest_index));
  EXPECT_EQ(error_of([&] {
              score(ctx, both, Tensor<Id, 2>(Shape{1, 2}), {}, {{1}}, {});
            }),
            "[score] an encoder–decoder needs a bos token");
  EXPECT_EQ(error_of([&] { score(ctx, both, ConstView<Id, 2>(), {}, Sequences{}, {.bos = 0}); }),
            "[score] no source is given");
  EXPECT_EQ(error_of([&] {
              score(ctx, both, Tensor<Id, 2>(Shape{2, 2}), {}, {{1}}, {.bos = 0});
            }),
            "[score] 1 targets for 2 sources");
  EXPECT_EQ(error_of([&] {
              score(ctx, decoder, {{1, 2}}, {.bos = -1});
            }),
            "[score] there is no token -1 to begin with");
  EXPECT_EQ(error_of([&] {
              score(ctx, decoder, {1, std::vector<Id>{2}});
            }),
            "[decode] ids and sequences of ids side by side");
  Tape tape;
  ctx.tape = &tape;
  EXPECT_EQ(error_of([&] { score(ctx, decoder, {{1, 2}}); }), "[score] scoring is neither recorded nor with dropout");
}

}  // namespace
}  // namespace eigenformer::test
