// Every number of every config has a range; names of fields that are given do not change those that are not.
#include "support/settings.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "eigenformer/block/deep_norm.hpp"
#include "eigenformer/block/gated_residual.hpp"
#include "eigenformer/block/parallel_block.hpp"
#include "eigenformer/block/sandwich.hpp"
#include "eigenformer/layer/attention/relative_attention.hpp"
#include "eigenformer/layer/attention/transformer_xl_attention.hpp"
#include "eigenformer/layer/norm/dynamic_tanh.hpp"
#include "eigenformer/layer/norm/scale_norm.hpp"
#include "eigenformer/model/bert.hpp"
#include "eigenformer/model/decoders.hpp"
#include "eigenformer/model/heads.hpp"
#include "eigenformer/model/marian.hpp"
#include "eigenformer/model/paper.hpp"
#include "eigenformer/model/t5.hpp"

#define EIGENFORMER_SET(field) [](auto& config, auto value) { config.field = value; }

namespace eigenformer::test {
namespace {

using None = NoValue;
template <class Made>
const auto make_a = [](const auto& config) { Made{config}; };

TEST(Settings, OfLayers) {
  expect_refused("linear", "in", LinearConfig{2, 3}, Bad::count(), EIGENFORMER_SET(in), make_a<Linear<None>>);
  expect_refused("linear", "out", LinearConfig{2, 3}, Bad::count(), EIGENFORMER_SET(out), make_a<Linear<None>>);
  expect_refused("embedding", "vocabulary", EmbeddingConfig{2, 3}, Bad::count(), EIGENFORMER_SET(vocabulary),
                 make_a<Embedding<None>>);
  expect_refused("embedding", "width", EmbeddingConfig{2, 3}, Bad::count(), EIGENFORMER_SET(width),
                 make_a<Embedding<None>>);
  expect_refused("mlp", "width", MlpConfig{2, 3}, Bad::count(), EIGENFORMER_SET(width), make_a<Mlp<None>>);
  expect_refused("mlp", "hidden", MlpConfig{2, 3}, Bad::count_or_none(), EIGENFORMER_SET(hidden), make_a<Mlp<None>>);
  expect_refused("gated_mlp", "width", GatedMlpConfig{2, 3}, Bad::count(), EIGENFORMER_SET(width),
                 make_a<SwiGlu<None>>);
  expect_refused("gated_mlp", "hidden", GatedMlpConfig{2, 3}, Bad::count_or_none(), EIGENFORMER_SET(hidden),
                 make_a<SwiGlu<None>>);
}

TEST(Settings, OfNorms) {
  expect_refused("layer_norm", "width", LayerNormConfig{4}, Bad::count(), EIGENFORMER_SET(width),
                 make_a<LayerNorm<None>>);
  expect_refused("layer_norm", "epsilon", LayerNormConfig{4}, Bad::size(), EIGENFORMER_SET(epsilon),
                 make_a<LayerNorm<None>>);
  expect_refused("rms_norm", "width", RmsNormConfig{4}, Bad::count(), EIGENFORMER_SET(width), make_a<RmsNorm<None>>);
  expect_refused("rms_norm", "epsilon", RmsNormConfig{4}, Bad::size(), EIGENFORMER_SET(epsilon), make_a<RmsNorm<None>>);
  expect_refused("scale_norm", "width", ScaleNormConfig{4}, Bad::count(), EIGENFORMER_SET(width),
                 make_a<ScaleNorm<None>>);
  expect_refused("scale_norm", "epsilon", ScaleNormConfig{4}, Bad::size(), EIGENFORMER_SET(epsilon),
                 make_a<ScaleNorm<None>>);
  expect_refused("dynamic_tanh", "width", DynamicTanhConfig{4}, Bad::count(), EIGENFORMER_SET(width),
                 make_a<DynamicTanh<None>>);
}

TEST(Settings, OfAttention) {
  using Capped = Attention<None, PlainHeads<None>, CappedScores<None>>;
  const Capped::Config good{.width = 8, .heads = 2, .scores = {.cap = 1}};
  const auto capped = make_a<Capped>;
  expect_refused("attention", "width", good, Bad::count(), EIGENFORMER_SET(width), capped);
  expect_refused("attention", "heads", good, Bad::count(), EIGENFORMER_SET(heads), capped);
  expect_refused("attention", "kv_heads", good, Bad::count_or_none(), EIGENFORMER_SET(kv_heads), capped);
  expect_refused("attention", "head_width", good, Bad::count_or_none(), EIGENFORMER_SET(head_width), capped);
  expect_refused("attention", "dropout", good, Bad::probability(), EIGENFORMER_SET(dropout), capped);
  expect_refused("attention", "scale", good, Bad::factor(), EIGENFORMER_SET(scale), capped);
  expect_refused("attention", "window", good, Bad::distance(), EIGENFORMER_SET(window), capped);
  expect_refused("attention", "cap", good, Bad::factor(), EIGENFORMER_SET(scores.cap), capped);
  using Normed = Attention<None, QkNorm<None>>;
  expect_refused("rms_norm", "epsilon", Normed::Config{.width = 8, .heads = 2}, Bad::size(),
                 EIGENFORMER_SET(per_head.norm.epsilon), make_a<Normed>);
  const RelativeAttentionConfig relative{.width = 8, .heads = 2};
  expect_refused("attention", "heads", TransformerXlAttentionConfig{.width = 8, .heads = 2}, Bad::count(),
                 EIGENFORMER_SET(heads), make_a<TransformerXlAttention<None>>);
  expect_refused("attention", "heads", relative, Bad::count(), EIGENFORMER_SET(heads), make_a<RelativeAttention<None>>);
  expect_refused("relative_attention", "clip", relative, Bad::count(), EIGENFORMER_SET(clip),
                 make_a<RelativeAttention<None>>);
}

TEST(Settings, OfPositions) {
  const LearnedConfig good{.width = 8, .max_positions = 5};
  expect_refused("learned", "max_positions", good, Bad::count(), EIGENFORMER_SET(max_positions),
                 make_a<Learned<None, 2>>);
  expect_refused("learned", "width", good, Bad::count(), EIGENFORMER_SET(width), make_a<Learned<None>>);
  expect_refused("relative", "heads", RelativeConfig{.heads = 2}, Bad::count(), EIGENFORMER_SET(heads),
                 make_a<Relative<None>>);
  expect_refused("rotary", "head_width", RotaryConfig{8}, Bad::count(), EIGENFORMER_SET(head_width),
                 make_a<Rotary<None>>);
  expect_refused("rotary", "rotated", RotaryConfig{8}, std::vector<Index>{Bad::lowest, -2, 10, Bad::most},
                 EIGENFORMER_SET(rotated), make_a<Rotary<None>>);
  expect_refused("rotary", "base", RotaryConfig{8}, Bad::factor(), EIGENFORMER_SET(base), make_a<Rotary<None>>);
  const auto scaled = [](const auto& scaling) { Rotary<None>{RotaryConfig{.head_width = 8, .scaling = scaling}}; };
  const std::vector<double> below_one{-Bad::inf, -1, 0, 0.5, Bad::inf, Bad::nan};
  expect_refused("rotary", "factor", LinearScaling{}, Bad::factor(), EIGENFORMER_SET(factor), scaled);
  expect_refused("rotary", "factor", NtkScaling{}, Bad::factor(), EIGENFORMER_SET(factor), scaled);
  expect_refused("rotary", "factor", DynamicNtkScaling{}, below_one, EIGENFORMER_SET(factor), scaled);
  expect_refused("rotary", "original", DynamicNtkScaling{}, Bad::count(), EIGENFORMER_SET(original), scaled);
  expect_refused("rotary", "factor", YarnScaling{}, below_one, EIGENFORMER_SET(factor), scaled);
  expect_refused("rotary", "original", YarnScaling{}, Bad::count(), EIGENFORMER_SET(original), scaled);
  expect_refused("rotary", "fast", YarnScaling{}, Bad::factor(), EIGENFORMER_SET(fast), scaled);
  expect_refused("rotary", "slow", YarnScaling{}, Bad::factor(), EIGENFORMER_SET(slow), scaled);
  expect_refused("rotary", "attention_factor", YarnScaling{}, Bad::factor(), EIGENFORMER_SET(attention_factor), scaled);
  const LongScaling listed{{1, 1, 1, 1}, {2, 2, 2, 2}};
  expect_refused("rotary", "original", listed, Bad::count(), EIGENFORMER_SET(original), scaled);
  expect_refused("rotary", "max_positions", listed, Bad::count(), EIGENFORMER_SET(max_positions), scaled);
  expect_refused("rotary", "attention_factor", listed, Bad::factor(), EIGENFORMER_SET(attention_factor), scaled);
  expect_refused("rotary", "factor", listed, Bad::factor(), EIGENFORMER_SET(long_factors[3]), scaled);
  expect_refused("rotary", "factor", listed, Bad::factor(), EIGENFORMER_SET(short_factors[0]), scaled);
  expect_refused("rotary", "factor", FactorScaling{{1, 1, 1, 1}}, Bad::factor(), EIGENFORMER_SET(factors[2]), scaled);
  expect_refused("rotary", "factor", Llama3Scaling{}, Bad::factor(), EIGENFORMER_SET(factor), scaled);
  expect_refused("rotary", "low", Llama3Scaling{}, Bad::factor(), EIGENFORMER_SET(low), scaled);
  expect_refused("rotary", "high", Llama3Scaling{}, Bad::factor(), EIGENFORMER_SET(high), scaled);
  expect_refused("rotary", "original", Llama3Scaling{}, Bad::count(), EIGENFORMER_SET(original), scaled);
}

template <class Residual>
void expect_checks_of_arrangement() {
  const typename Residual::Config good{.width = 4};
  expect_refused("residual", "width", good, Bad::count(), EIGENFORMER_SET(width), make_a<Residual>);
  expect_refused("residual", "dropout", good, Bad::probability(), EIGENFORMER_SET(dropout), make_a<Residual>);
  if constexpr (requires { good.alpha; })
    expect_refused("residual", "alpha", good, Bad::factor(), EIGENFORMER_SET(alpha), make_a<Residual>);
}

TEST(Settings, OfArrangements) {
  expect_checks_of_arrangement<PostNorm<None>>();
  expect_checks_of_arrangement<PreNorm<None>>();
  expect_checks_of_arrangement<Sandwich<None>>();
  expect_checks_of_arrangement<DeepNorm<None>>();
  expect_checks_of_arrangement<LayerScale<None>>();
  expect_checks_of_arrangement<ReZero<None>>();
}

/// What every block and every model with blocks refuses, wherever `block` finds the config of the block in that of the
/// whole.
template <class Whole, class Config>
void expect_checks_of_block(const Config& good, auto block, const std::string& feed_forward = "mlp") {
  const auto refused = [&](const std::string& place, const std::string& field, const auto& bad, auto set) {
    expect_refused(
        place, field, good, bad, [&](auto& config, auto value) { set(block(config), value); }, make_a<Whole>);
  };
  const auto of_attention = [&](const std::string& field, const auto& bad, auto set) {
    refused("attention", field, bad, [set](auto& config, auto value) {
      if constexpr (requires { config.self_attention; }) set(config.self_attention, value);
      else set(config.attention, value);
    });
  };
  refused("attention", "heads", Bad::count_or_none(), EIGENFORMER_SET(heads));
  of_attention("kv_heads", Bad::count_or_none(), EIGENFORMER_SET(kv_heads));
  of_attention("head_width", Bad::count_or_none(), EIGENFORMER_SET(head_width));
  of_attention("scale", Bad::factor(), EIGENFORMER_SET(scale));
  of_attention("window", Bad::distance(), EIGENFORMER_SET(window));
  refused(feed_forward, "hidden", Bad::count_or_none(), EIGENFORMER_SET(hidden));
  for (const double value : Bad::probability()) {  // by the first part that has it
    Config config = good;
    block(config).dropout = value;
    EXPECT_NE(error_of([&] { Whole{config}; }).find("dropout"), std::string::npos) << value;
  }
  for (const double value : Bad::size()) {
    Config config = good;
    if constexpr (requires { block(config).norm; }) block(config).norm.epsilon = value;
    else block(config).residual.norm.epsilon = value;
    EXPECT_NE(error_of([&] { Whole{config}; }).find("epsilon"), std::string::npos) << value;
  }
  for (const Index value : Bad::count()) {
    Config config = good;
    block(config).width = value;
    EXPECT_NE(error_of([&] { Whole{config}; }).find("width"), std::string::npos) << value;
  }
}

TEST(Settings, OfBlocks) {
  const auto itself = [](auto& config) -> auto& { return config; };
  expect_checks_of_block<EncoderBlock<PostNorm<None>>>(EncoderBlock<>::Config{.width = 8, .heads = 2}, itself);
  expect_checks_of_block<DecoderBlock<PreNorm<None>>>(DecoderBlock<>::Config{.width = 8, .heads = 2}, itself);
  expect_checks_of_block<ParallelBlock<None>>(ParallelBlock<>::Config{.width = 8, .heads = 2}, itself);
}

TEST(Settings, OfModels) {
  const auto inner = [](auto& config) -> auto& { return config.block; };
  const EncoderBlock<>::Config block{.width = 8, .heads = 2};

  using Encoding = Encoder<PostNorm<None>>;
  expect_checks_of_block<Encoding>(Encoding::Config{.layers = 1, .block = block}, inner);
  expect_refused("stack", "layers", Encoding::Config{.layers = 1, .block = block}, Bad::layers(),
                 EIGENFORMER_SET(layers), make_a<Encoding>);

  const Gpt2<>::Config decoder{.vocabulary = 5, .max_positions = 7, .layers = 1, .block = block};
  const Llama<>::Config llama{.vocabulary = 5, .layers = 1, .block = {.width = 8, .heads = 2}};
  expect_checks_of_block<Gpt2<None>>(decoder, inner);
  expect_checks_of_block<Llama<None>>(llama, inner, "gated_mlp");
  expect_refused("embedding", "vocabulary", decoder, Bad::count(), EIGENFORMER_SET(vocabulary), make_a<Gpt2<None>>);
  expect_refused("language_model", "max_positions", decoder, Bad::count_or_none(), EIGENFORMER_SET(max_positions),
                 make_a<Gpt2<None>>);
  expect_refused("language_model", "layers", decoder, Bad::layers(), EIGENFORMER_SET(layers), make_a<Gpt2<None>>);
  expect_refused("language_model", "logit_cap", decoder, Bad::size(), EIGENFORMER_SET(logit_cap), make_a<Gpt2<None>>);
  expect_refused("rotary", "rotated", llama, std::vector<Index>{-2, 6}, EIGENFORMER_SET(position.rotated),
                 make_a<Llama<None>>);
  expect_refused("rotary", "base", llama, Bad::factor(), EIGENFORMER_SET(position.base), make_a<Llama<None>>);

  using Pair = EncoderDecoder<PostNorm<None>>;
  const Pair::Config pair{
      .source_vocabulary = 5, .target_vocabulary = 5, .encoder_layers = 1, .decoder_layers = 1, .block = block};
  expect_checks_of_block<Pair>(pair, inner);
  expect_refused("encoder_decoder", "source_vocabulary", pair, Bad::count(), EIGENFORMER_SET(source_vocabulary),
                 make_a<Pair>);
  expect_refused("encoder_decoder", "target_vocabulary", pair, Bad::count(), EIGENFORMER_SET(target_vocabulary),
                 make_a<Pair>);
  expect_refused("encoder_decoder", "encoder_layers", pair, Bad::layers(), EIGENFORMER_SET(encoder_layers),
                 make_a<Pair>);
  expect_refused("encoder_decoder", "decoder_layers", pair, Bad::layers(), EIGENFORMER_SET(decoder_layers),
                 make_a<Pair>);
  expect_refused("encoder_decoder", "max_positions", pair, Bad::count_or_none(), EIGENFORMER_SET(max_positions),
                 make_a<Pair>);
  expect_refused("encoder_decoder", "logit_scale", pair, Bad::factor(), EIGENFORMER_SET(logit_scale), make_a<Pair>);

  const Bert<>::Config bert{.vocabulary = 5, .layers = 1, .block = {.width = 8, .heads = 2}};
  expect_checks_of_block<Bert<None>>(bert, inner);
  expect_refused("embedding", "vocabulary", bert, Bad::count(), EIGENFORMER_SET(vocabulary), make_a<Bert<None>>);
  expect_refused("learned", "max_positions", bert, Bad::count_or_none(), EIGENFORMER_SET(max_positions),
                 make_a<Bert<None>>);
  expect_refused("bert", "types", bert, Bad::count(), EIGENFORMER_SET(types), make_a<Bert<None>>);
  expect_refused("bert", "layers", bert, Bad::layers(), EIGENFORMER_SET(layers), make_a<Bert<None>>);
  for (const double dropout : Bad::probability())
    EXPECT_NE(
        error_of([&] { ClassificationHead<None>(4, 2, Pooling::first, dropout); }).find("[classification] dropout"),
        std::string::npos);
  for (const Index vocabulary : Bad::count())
    EXPECT_NE(error_of([&] { MaskedLanguageHead<None>(4, vocabulary); }).find("[masked_language] vocabulary"),
              std::string::npos);
}

// A config within a config begins as it does alone, so that naming one of its fields changes no other.
TEST(Defaults, DoNotDependOnWhatIsNamed) {
  using BlockConfig = EncoderBlock<>::Config;
  EXPECT_EQ(Encoder<>::Config{}.block, BlockConfig{});
  EXPECT_EQ(Gpt2<>::Config{}.block, BlockConfig{});
  EXPECT_EQ(EncoderDecoder<>::Config{}.block, BlockConfig{});
  EXPECT_EQ(Bert<>::Config{}.block, BlockConfig{});
  EXPECT_EQ(BlockConfig{}.attention, AttentionConfig{});
  EXPECT_EQ(BlockConfig{}.feed_forward, MlpConfig{});
  BlockConfig named{.width = 64};
  named.width = BlockConfig{}.width;
  EXPECT_EQ(named, BlockConfig{});
  EXPECT_EQ(Gpt2<>::Config{.block = {.width = 64}}.block.dropout, 0);
}

// A complete config says everything: what is changed there is not silently what it was.
TEST(Defaults, OfACompleteConfigThatIsChanged) {
  const auto complete =
      Gpt2<None>({.vocabulary = 7, .max_positions = 9, .layers = 1, .block = {.width = 8, .heads = 2}}).config;
  const auto refused = [&](auto set) {
    auto config = complete;
    set(config);
    return error_of([&] { Gpt2<None>{config}; });
  };
  EXPECT_EQ(refused([](auto& c) { c.block.heads = 4; }), "[encoder_block] a part says heads 2, but the whole 4");
  EXPECT_EQ(refused([](auto& c) { c.block.hidden = 11; }), "[encoder_block] a part says hidden 32, but the whole 11");
  EXPECT_EQ(refused([](auto& c) { c.max_positions = 99; }),
            "[language_model] a part says max_positions 9, but the whole 99");
  auto config = complete;
  config.block.dropout = 0.5;
  const Gpt2<None> model(config);
  EXPECT_EQ(model.dropout, 0.5);
  EXPECT_EQ(model.decoder.blocks[0].attention.dropout, 0.5);
  EXPECT_EQ(model.decoder.blocks[0].attention_residual.dropout, 0.5);
  config = model.config;
  config.block.attention.dropout = 0.25;  // said by the part
  config.block.dropout = 0.125;
  EXPECT_EQ(Gpt2<None>(config).decoder.blocks[0].attention.dropout, 0.25);
  EXPECT_EQ(Gpt2<None>(config).decoder.blocks[0].feed_forward_residual.dropout, 0.125);

  const Bart<None> pair({.source_vocabulary = 7, .target_vocabulary = 7, .block = {.width = 8, .heads = 2}});
  EXPECT_EQ(pair.config.max_positions, 1024);
  auto changed = pair.config;
  changed.max_positions = 99;
  EXPECT_EQ(error_of([&] { Bart<None>{changed}; }),
            "[encoder_decoder] a part says max_positions 1024, but the whole 99");
  changed.position.max_positions = 99;
  EXPECT_EQ(Bart<None>(changed).position.max_positions(), 99);
  EXPECT_EQ(Bart<None>(changed).target_position.max_positions(), 1024);
}

// What the encoder is told is the decoder's too, unless that has its own; each side's is for all of it.
TEST(Defaults, OfTheTarget) {
  const EncoderDecoder<PostNorm<None>>::Config paper{.source_vocabulary = 7,
                                                     .target_vocabulary = 7,
                                                     .encoder_layers = 1,
                                                     .decoder_layers = 1,
                                                     .block = {.width = 8, .heads = 2, .dropout = 0.5},
                                                     .position = {.base = 50, .halves = true},
                                                     .embedding_norm = true};
  const EncoderDecoder<PostNorm<None>> model(paper);
  EXPECT_EQ(model.target_position.base, 50);
  EXPECT_TRUE(model.target_position.layout->halves);
  EXPECT_EQ(model.target_dropout, 0.5);
  auto own = paper;
  own.target_position = SinusoidalConfig{};
  own.decoder_block = own.as_decoder();
  own.decoder_block->dropout = 0.25;
  own.decoder_block->residual.norm.epsilon = 0.125;
  const EncoderDecoder<PostNorm<None>> other(own);
  EXPECT_EQ(other.target_position.base, 10000);
  EXPECT_EQ(other.dropout, 0.5);
  EXPECT_EQ(other.target_dropout, 0.25);
  EXPECT_EQ(other.decoder.blocks[0].self_attention.dropout, 0.25);
  EXPECT_EQ(other.embedding_norm->epsilon, 1e-5);
  EXPECT_EQ(other.target_embedding_norm->epsilon, 0.125);

  const T5<None> t5(
      {.source_vocabulary = 7, .target_vocabulary = 7, .block = {.width = 8, .heads = 2}, .position = {.buckets = 8}});
  EXPECT_EQ(t5.target_position.weight.shape(), (Shape{8, 2}));
  using Parallel = BasicEncoderDecoder<ParallelBlock<None>, DecoderBlock<PreNorm<None>>>;
  const Parallel parallel(
      {.source_vocabulary = 7, .target_vocabulary = 7, .block = {.width = 8, .heads = 2, .norm = {.epsilon = 0.25}}});
  EXPECT_EQ(parallel.decoder.blocks[0].feed_forward_residual.norm.epsilon, 0.25);
  using Mixed =
      BasicEncoderDecoder<EncoderBlock<PreNorm<None>>, DecoderBlock<PreNorm<None>>, Sinusoidal<None>, Learned<None>>;
  Mixed::Config mixed{.source_vocabulary = 7, .target_vocabulary = 7, .block = {.width = 8, .heads = 2}};
  EXPECT_NO_THROW(Mixed{mixed});
  mixed.position.base = 50;
  EXPECT_NE(error_of([&] { Mixed{mixed}; }).find("target_position must be given"), std::string::npos);
}

TEST(Defaults, HiddenWidthFollowsWidth) {
  EXPECT_EQ(Mlp<None>({.width = 64}).up.weight.shape(), (Shape{256, 64}));
  EXPECT_EQ(Mlp<None>({}).down.weight.shape(), (Shape{512, 2048})) << "the paper's";
  EXPECT_EQ(SwiGlu<None>({.width = 64}).gate.weight.shape(), (Shape{170, 64})) << "2/3 of 256";
  EXPECT_EQ(SwiGlu<None>({}).down.weight.shape(), (Shape{512, 1365}));
  const Gpt2<None> gpt({.vocabulary = 5, .layers = 1, .block = {.width = 64}});
  EXPECT_EQ(gpt.decoder.blocks[0].feed_forward.up.weight.shape(), (Shape{256, 64}));
  const Llama<None> llama({.vocabulary = 5, .layers = 1, .block = {.width = 96}}),
      given({.vocabulary = 5, .layers = 1, .block = {.width = 96, .hidden = 7}});
  EXPECT_EQ(llama.decoder.blocks[0].feed_forward.down.weight.shape(), (Shape{96, 256}));
  EXPECT_EQ(given.decoder.blocks[0].feed_forward.down.weight.shape(), (Shape{96, 7}));
}

// Published dropout, e.g. in table 3 of Vaswani et al. 2017, is in published configs.
TEST(Defaults, PublishedDropoutIsGiven) {
  for (const double dropout : {paper_base().block.dropout, t5_small().block.dropout, t5_base().block.dropout,
                               t5v11_base().block.dropout, bart_base().block.dropout, marian_base(5).block.dropout})
    EXPECT_EQ(dropout, 0.1);
  EXPECT_EQ(paper_big().block.dropout, 0.3);
  for (const auto& config : {bert_base(), roberta_base()}) EXPECT_EQ(config.block.dropout, 0.1);
  for (const double dropout : {llama2_7b().block.dropout, llama3_8b().block.dropout, mistral_7b().block.dropout,
                               qwen2_small().block.dropout, qwen3_small().block.dropout, gemma2_2b().block.dropout,
                               phi2().block.dropout, bloom_560m().block.dropout, gpt2_small().block.dropout})
    EXPECT_EQ(dropout, 0);
}

}  // namespace
}  // namespace eigenformer::test
#undef EIGENFORMER_SET
