// A model and a file whose configs differ, or a config and parts that do.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "eigenformer/core/initialize.hpp"
#include "eigenformer/io/checkpoint.hpp"
#include "eigenformer/model/decoders.hpp"
#include "eigenformer/model/encoder_decoder.hpp"
#include "eigenformer/train/trainer.hpp"
#include "support/error.hpp"
#include "support/files.hpp"

namespace eigenformer::test {
namespace {

using Model = Gpt2<float>;

Model::Config other_small() {
  return {.vocabulary = 7, .max_positions = 20, .layers = 2, .block = {.width = 8, .hidden = 6, .heads = 2}};
}

// Tensors alone do not tell heads, windows and the like: a model takes the weights of one that computes the same.
TEST(OtherConfig, OfAModelWithOtherNumbers) {
  const TemporaryFolder folder;
  const auto path = folder / "x";
  auto config = other_small();
  Model model(config);
  initialize(model, 1);
  const auto refused = [&](const Model& from) {
    save(path, from);
    const std::string text = error_of([&] { load(path, model); }),
                      begin = "[load] " + path.string() +
                              " is of another model; if that is meant, say other_config:\n  config: ";
    EXPECT_EQ(text.substr(0, begin.size()), begin);
    EXPECT_NO_THROW(load(path, model, {.other_config = true}));
    return text.substr((std::min)(begin.size(), text.size()));
  };
  config.block.heads = 4;
  EXPECT_EQ(refused(Model(config)).find("block.attention.head_width is 2 in the file, but 4 in the model"), 0u);
  config = other_small();
  config.block.attention.window = 2;
  EXPECT_EQ(refused(Model(config)).find("block.attention.window is 2 in the file, but 0 in the model"), 0u);
  config = other_small();
  config.block.residual.norm.epsilon = 0.25;
  EXPECT_NE(refused(Model(config)).find("block.residual.norm.epsilon is 0.25 in the file, but 1e-05 in the model"),
            std::string::npos);
  config = other_small();
  config.logit_cap = 3;
  EXPECT_EQ(refused(Model(config)), "logit_cap is 3.0 in the file, but 0.0 in the model");
  config = other_small();
  config.each_layer.assign(2, config.block);
  config.each_layer[1].attention.window = 5;
  EXPECT_EQ(refused(Model(config)), "each_layer.1.attention.window is 5 in the file, but 0 in the model");
  Trainer trainer(model, {.learning_rate = ConstantRate{1e-3}});
  save(path, Trainer(Model(config), {.learning_rate = ConstantRate{1e-3}}));
  for (const std::string& text :
       {error_of([&] { load(path, trainer); }), error_of([&] { load(path, model, {.prefix = "model."}); })})
    EXPECT_NE(text.find("each_layer.1.attention.window is 5 in the file"), std::string::npos) << text;

  config.each_layer[1].attention.window = 0;  // all the same, but otherwise said
  config.block.dropout = config.each_layer[0].dropout = 0.5;
  save(path, Model(config));
  EXPECT_NO_THROW(load(path, model));
}

// Nor do they tell an activation, or where the norms are.
TEST(OtherConfig, OfAModelWithOtherParts) {
  using Bent = LanguageModel<EncoderBlock<PreNorm<float>, Attention<float>, Mlp<float, Relu>>, Learned<float>>;
  const TemporaryFolder folder;
  const auto path = folder / "x";
  Bent bent(other_small());
  initialize(bent, 1);
  save(path, bent);
  Model model(other_small());
  const std::string text = "[load] " + path.string() +
                           " is of another model; if that is meant, say other_config:\n  kind: "
                           "decoder.blocks.feed_forward is \"relu\" in the file, but \"gelu_tanh\" in the model";
  EXPECT_EQ(error_of([&] { load(path, model); }), text);
  EXPECT_EQ(error_of([&] { load<Model>(path); }), text);
  EXPECT_EQ(load<Bent>(path).config, bent.config);
  load(path, model, {.other_config = true});
  EXPECT_EQ(model.embedding.weight(1, 2), bent.embedding.weight(1, 2));

  using Before = EncoderDecoder<PreNorm<float>>;
  using After = EncoderDecoder<PostNorm<float>>;
  const Before::Config pair{.source_vocabulary = 7,
                            .target_vocabulary = 7,
                            .encoder_layers = 1,
                            .decoder_layers = 1,
                            .block = {.width = 8, .heads = 2},
                            .final_norm = true};
  Before before(pair);
  initialize(before, 1);
  save(path, Trainer(before, {.learning_rate = ConstantRate{1e-3}}));
  const std::string other = error_of([&] { load<After>(path, {.prefix = "model."}); });
  EXPECT_NE(other.find("kind: encoder.blocks.feed_forward_residual is \"pre_norm\" in the file, but \"post_norm\""),
            std::string::npos)
      << other;
}

TEST(OtherConfig, SaysEverythingOnce) {
  const std::string text = config_text(other_small());
  const auto refused = [&](const std::string& after, const std::string& what) {
    auto twice = text;
    twice.insert(twice.find(after) + after.size(), what);
    return error_of([&] { parse_config<Model::Config>(twice, "x"); });
  };
  EXPECT_EQ(refused("{", "\"layers\":99,"), "[config] x: the config says layers twice");
  EXPECT_EQ(refused("\"block\":{", "\"width\":8,"), "[config] x: the config says width twice");
  EXPECT_TRUE(parse_config<Model::Config>(text, "x") == other_small()) << "each part has its own width";
}

}  // namespace
}  // namespace eigenformer::test
