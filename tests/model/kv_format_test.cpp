// Models that decode with keys and values in bf16 or int8: the same bits in whatever pieces and company, nearly the
// logits of float, and texts of every kind of decoding.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "eigenformer/decode/beam.hpp"
#include "eigenformer/decode/generate.hpp"
#include "eigenformer/model/decoders.hpp"
#include "eigenformer/model/encoder_decoder.hpp"
#include "support/error.hpp"
#include "support/tensors.hpp"

namespace eigenformer::test {
namespace {

constexpr Format kept_formats[] = {Format::bf16, Format::int8};

Llama<float> kv_format_llama() {
  Llama<float> model({.vocabulary = 90,
                      .layers = 2,
                      .block = {.width = 96, .hidden = 96, .heads = 6, .dropout = 0, .attention = {.kv_heads = 2}}});
  randomize(model, 3);
  return model;
}

/// Logits of every token of a text (N, V), in pieces of so many tokens.
Tensor<float, 2> all_logits(const auto& model, const std::vector<Id>& text, Format format, Index piece) {
  Context ctx;
  auto state = model.start(1, format);
  Tensor<float, 2> logits(Shape{static_cast<Index>(text.size()), Index{90}});
  for (Index first = 0; first < logits.extent(0); first += piece) {
    ctx.reset();
    const std::vector<Index> counts{(std::min)(piece, logits.extent(0) - first)};
    const auto rows =
        model.next_logits(ctx,
                          {.ids = {&text[static_cast<std::size_t>(first)], static_cast<std::size_t>(counts[0])},
                           .counts = counts,
                           .wanted = counts},
                          state);
    std::copy_n(rows.data(), rows.size(), logits.view().row(first));
  }
  return logits;
}

double relative_error(const Tensor<float, 2>& got, const Tensor<float, 2>& want) {
  double error = 0, size = 0;
  for (Index i = 0; i < want.size(); ++i) {
    error += std::pow(got.data()[i] - want.data()[i], 2);
    size += std::pow(want.data()[i], 2);
  }
  return std::sqrt(error / size);
}

std::vector<Id> random_text(Index tokens) {
  const auto ids = random_ids(Shape{Index{1}, tokens}, 0, 90, 4);
  return {ids.data(), ids.data() + tokens};
}

}  // namespace

// A number is off by up to 2⁻⁹ of itself in bf16, and in int8 by up to half a 127th of the largest of its token, about
// two deviations where there are 16. What two layers make of that is on the whole no more than twice as much.
TEST(KvFormatModel, LogitsAreNearlyThoseOfFloat) {
  const auto model = kv_format_llama();
  const auto text = random_text(600);
  const auto exact = all_logits(model, text, Format::scalar, 600);
  for (const auto& [format, of_number] : {std::pair{Format::bf16, std::ldexp(1.0, -9)}, {Format::int8, 1.0 / 127}}) {
    const double error = relative_error(all_logits(model, text, format, 600), exact);
    EXPECT_LE(error, 2 * of_number) << format_name(format);
    EXPECT_GE(error, of_number / 100) << format_name(format);
  }
}

TEST(KvFormatModel, SameBitsInWhateverPieces) {
  const auto model = kv_format_llama();
  const auto text = random_text(530);
  for (const Format format : kept_formats) {
    const auto once = all_logits(model, text, format, 530);
    for (const Index piece : {1, 7, 512})
      EXPECT_TRUE(identical(all_logits(model, text, format, piece), once)) << format_name(format) << ", " << piece;
  }
}

TEST(KvFormatModel, TextsDoNotDependOnCompany) {
  const auto model = kv_format_llama();
  const std::vector<std::vector<Id>> prompts{{1, 5, 7, 2, 80, 44, 3}, {12}, {8, 8, 9}};
  for (const Format format : kept_formats) {
    SCOPED_TRACE(format_name(format));
    const GenerateConfig config{
        .max_tokens = 25, .sampling = Sampling{.seed = 1}, .log_probabilities = true, .cache = format};
    Context ctx, other(Threads(3));
    const auto together = generate(ctx, model, prompts, config);
    GenerateConfig drafted = config, in_float = config;
    drafted.draft = LookUp{};
    in_float.cache = Format::scalar;
    const auto faster = generate(other, model, prompts, drafted), exact = generate(ctx, model, prompts, in_float);
    const auto beams = beam_search(ctx, model, prompts, {.max_tokens = 9, .beams = 3, .cache = format});
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      GenerateConfig alone = config;
      alone.first_sequence = static_cast<Index>(i);
      alone.chunk = 2;
      const auto one = generate(other, model, {prompts[i]}, alone);
      EXPECT_EQ(one[0].tokens, together[i].tokens);
      EXPECT_EQ(one[0].log_probabilities, together[i].log_probabilities);
      EXPECT_EQ(faster[i].log_probabilities, together[i].log_probabilities);
      EXPECT_NE(exact[i].log_probabilities, together[i].log_probabilities);
      const auto found = beam_search(other, model, {prompts[i]}, {.max_tokens = 9, .beams = 3, .cache = format});
      EXPECT_EQ(found[0][0].tokens, beams[i][0].tokens);
      EXPECT_EQ(found[0][0].score, beams[i][0].score);
    }
  }
}

TEST(KvFormatModel, StatesSayTheirMemory) {
  const auto model = kv_format_llama();
  const std::vector<Id> text = random_text(kernel::key_block<float>);
  const std::vector<Index> counts{static_cast<Index>(text.size())};
  for (const auto& [format, of_token] :
       {std::pair{Format::scalar, 4 * 32}, {Format::bf16, 2 * 32}, {Format::int8, 32 + 8}}) {
    Context ctx;
    auto state = model.start(1, format);
    model.hidden(ctx, {.ids = text, .counts = counts}, state);
    EXPECT_EQ(state.bytes(), std::int64_t{2} * 2 * of_token * kernel::key_block<float>)
        << "of each layer, head and token a key and a value of 16 numbers";
    state.select(std::vector<Index>{0, 0});
    EXPECT_EQ(state.bytes(), std::int64_t{2} * 2 * of_token * kernel::key_block<float>);
  }
  EXPECT_EQ(error_of([&] { model.start(1, Format::f16); }),
            "[kv_cache] cannot keep keys and values in f16: must be scalar, bf16 or int8");
}

// An encoder–decoder keeps sources and targets so.
TEST(KvFormatModel, SourcesAreKeptLikewise) {
  EncoderDecoder<PreNorm<float>> model(
      EncoderDecoder<PreNorm<float>>::Config{.source_vocabulary = 90,
                                             .target_vocabulary = 90,
                                             .encoder_layers = 1,
                                             .decoder_layers = 1,
                                             .block = {.width = 32, .hidden = 48, .heads = 2, .dropout = 0}});
  randomize(model, 3);
  const std::vector<std::vector<Id>> sources{{1, 5, 7, 2, 80, 44, 3}, {12}, {8, 8, 9}};
  for (const Format format : kept_formats) {
    Context ctx;
    const auto state = model.start(ctx, random_ids(Shape{2, 40}, 0, 90, 1), {}, format);
    EXPECT_EQ(state.layers[0].format(), format);
    EXPECT_EQ(state.bytes(), 2 * KvCache<float>::bytes_for(40, 2, 16, format));
    const GenerateConfig config{.max_tokens = 12, .bos = 0, .log_probabilities = true, .cache = format};
    const auto together = generate(ctx, model, sources, config);
    const auto beams = beam_search(ctx, model, sources, {.max_tokens = 9, .bos = 0, .beams = 3, .cache = format});
    for (std::size_t i = 0; i < sources.size(); ++i) {
      EXPECT_EQ(generate(ctx, model, {sources[i]}, config)[0].log_probabilities, together[i].log_probabilities);
      EXPECT_EQ(
          beam_search(ctx, model, {sources[i]}, {.max_tokens = 9, .bos = 0, .beams = 3, .cache = format})[0][0].score,
          beams[i][0].score);
    }
  }
}

}  // namespace eigenformer::test
