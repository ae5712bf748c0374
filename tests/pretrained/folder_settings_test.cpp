// What keys of config.json and generation_config.json mean: to the model, to the facts, and to nobody.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "eigenformer/model/initialize.hpp"
#include "eigenformer/pretrained/hugging_face.hpp"
#include "eigenformer/train/adam.hpp"
#include "pretrained/stored.hpp"
#include "support/error.hpp"
#include "support/files.hpp"
#include "support/tensors.hpp"

namespace eigenformer::test {
namespace {

template <class Model>
Pretrained<Model> load_stored(const Checkpoint& checkpoint, const PretrainedOptions& options = {}) {
  auto files = checkpoint.open();
  return load_hugging_face<Model>(files, options);
}

/// A folder with both files.
template <class Model>
Pretrained<Model> load_with_generation(const Checkpoint& checkpoint, const nlohmann::json& generation,
                                       const PretrainedOptions& options = {}) {
  const TemporaryFolder folder;
  write_file(folder / "config.json", checkpoint.config.dump());
  write_file(folder / "model.safetensors", checkpoint.safetensors());
  write_file(folder / "generation_config.json", generation.dump());
  auto loaded = load_hugging_face<Model>(folder / "", options);
  for (std::string& warning : loaded.facts.warnings) warning = warning.substr(warning.rfind('/') + 1);
  return loaded;
}

using Lines = std::vector<std::string>;

}  // namespace

TEST(FolderSettings, WhatDecidesTheTextIsCarriedOrListed) {
  Checkpoint gpt2 = checkpoint_of(small_model<Gpt2<float>>(small_gpt2()), {.bos = 1, .eos = {2}});
  EXPECT_TRUE(load_stored<Gpt2<float>>(gpt2).facts.warnings.empty());
  const nlohmann::json harmless{{"do_sample", false},
                                {"num_beams", 1},
                                {"temperature", 1.0},
                                {"top_k", 0},
                                {"top_p", 1},
                                {"length_penalty", 1.0},
                                {"repetition_penalty", 1.0},
                                {"no_repeat_ngram_size", 0},
                                {"min_length", 0},
                                {"forced_eos_token_id", nullptr},
                                {"bad_words_ids", nlohmann::json::array()},
                                {"prefix", ""},
                                {"task_specific_params", nlohmann::json::object()}};
  const nlohmann::json deciding{{"do_sample", true},
                                {"num_beams", 4},
                                {"temperature", 0.6},
                                {"top_k", 50},
                                {"top_p", 0.9},
                                {"length_penalty", 0.8},
                                {"repetition_penalty", 1.1},
                                {"no_repeat_ngram_size", 3},
                                {"min_length", 5},
                                {"forced_eos_token_id", 2},
                                {"bad_words_ids", {{3}}},
                                {"prefix", "say: "},
                                {"task_specific_params", {{"summarization", {{"num_beams", 4}}}}},
                                {"max_length", 40},
                                {"early_stopping", true},
                                {"suppress_tokens", {1, 2}},
                                {"forced_bos_token_id", 0},
                                {"exponential_decay_length_penalty", {5, 1.1}}};
  Checkpoint changed = gpt2;
  changed.config.update(harmless);
  EXPECT_EQ(load_stored<Gpt2<float>>(changed).facts.warnings, Lines{});
  changed.config.update(deciding);
  Lines want, ignored;
  for (const auto& [key, value] : deciding.items()) {
    want.push_back("memory/config.json: key \"" + key + "\" is " + value.dump());
    ignored.push_back(key);
  }
  EXPECT_EQ(load_stored<Gpt2<float>>(changed).facts.warnings, want);
  EXPECT_EQ(load_stored<Gpt2<float>>(changed, {.ignored_keys = ignored}).facts.warnings, Lines{});

  // generation_config.json comes first, and may say what nobody knows.
  const nlohmann::json generation{
      {"temperature", 1.0}, {"top_k", 20}, {"eos_token_id", {2, 5}}, {"chat_format", "x"}, {"_from_model_config", true},
      {"use_cache", false}, {"min_p", 0.1}};
  gpt2.config["temperature"] = 0.7;
  gpt2.config["num_beams"] = 3;
  gpt2.config["top_k"] = 10;
  const Lines both{"generation_config.json: key \"chat_format\" is \"x\"",
                   "generation_config.json: key \"min_p\" is 0.1", "config.json: key \"num_beams\" is 3",
                   "generation_config.json: key \"top_k\" is 20"};
  const auto loaded = load_with_generation<Gpt2<float>>(gpt2, generation);
  EXPECT_EQ(loaded.facts.warnings, both);
  EXPECT_EQ(loaded.facts.eos, (std::vector<Id>{2, 5}));
  EXPECT_EQ(load_with_generation<Gpt2<float>>(gpt2, generation,
                                              {.ignored_keys = {"chat_format", "min_p", "num_beams", "top_k"}})
                .facts.warnings,
            Lines{});
}

TEST(FolderSettings, ForcedFirstTokenOfBart) {
  Checkpoint bart = checkpoint_of(small_model<Bart<float>>(small_bart<false>()),
                                  {.bos = 0, .pad = 1, .decoder_start = 2, .eos = {2}});
  bart.config["forced_bos_token_id"] = 0;
  const auto loaded = load_with_generation<Bart<float>>(bart, {{"forced_bos_token_id", 0}});
  EXPECT_EQ(loaded.facts.warnings, Lines{"generation_config.json: key \"forced_bos_token_id\" is 0"});
  EXPECT_EQ(loaded.facts.decoder_start, 2);
}

TEST(FolderSettings, EndsOfGenerationComeFirst) {
  Checkpoint llama = checkpoint_of(small_model<Llama<float>>(small_llama()), {.eos = {2}, .max_positions = 16});
  EXPECT_EQ(load_with_generation<Llama<float>>(llama, {{"eos_token_id", {2, 7, 9}}}).facts.eos,
            (std::vector<Id>{2, 7, 9}));
  llama.config["eos_token_id"] = {2, 7, 9};
  EXPECT_EQ(load_with_generation<Llama<float>>(llama, {{"eos_token_id", 2}}).facts.eos, std::vector<Id>{2});
}

TEST(FolderSettings, KeysThatSayNothing) {
  Checkpoint llama = checkpoint_of(small_model<Llama<float>>(small_llama())),
             gpt2 = checkpoint_of(small_model<Gpt2<float>>(small_gpt2())),
             t5 = checkpoint_of(small_model<T5<float>>(small_t5<true>()));
  for (Checkpoint* each : {&llama, &gpt2, &t5}) {
    each->config.update({{"is_decoder", true}, {"max_sequence_length", 2048}, {"unsloth_fixed", true}});
    auto files = each->open();
    EXPECT_NO_THROW(load_pretrained<float>(files));
  }
  llama.config["use_mrope"] = false;
  EXPECT_NO_THROW(load_stored<Llama<float>>(llama));
}

TEST(FolderSettings, IgnoredKeysMayHaveAnyValue) {
  // A mask of a decoder in an encoder: it matters, but the user may say that it does not.
  Checkpoint bert = checkpoint_of(small_model<Bert<float>>(small_bert()));
  bert.config["is_decoder"] = true;
  expect_contains(error_of([&] { load_stored<Bert<float>>(bert); }),
                  "key \"is_decoder\" is true, but only false is supported");
  EXPECT_NO_THROW(load_stored<Bert<float>>(bert, {.ignored_keys = {"is_decoder"}}));
  // In objects within, too.
  Checkpoint llama = checkpoint_of(small_model<Llama<float>>(small_llama()));
  llama.config["rope_scaling"] = {
      {"rope_type", "linear"}, {"factor", 2}, {"new_thing", 1}, {"partial_rotary_factor", 1}};
  expect_contains(error_of([&] { load_stored<Llama<float>>(llama); }), "rope_scaling: key \"new_thing\" is unknown");
  EXPECT_NO_THROW(load_stored<Llama<float>>(llama, {.ignored_keys = {"new_thing", "partial_rotary_factor"}}));
}

// In transformers 4, tied means scaled, for both. 5 always says tied, T5 has a key for the scale, and mT5 no scale.
TEST(FolderSettings, HeadsOfT5ByVersion) {
  struct Case {
    const char* type;
    const char* version;  // null: not said
    nlohmann::json tied, scaled;
    bool own;  // the file has another head
    bool is_tied, is_scaled;
    const char* refusal = nullptr;
  };
  const nlohmann::json none;
  const std::vector<Case> cases{{"t5", nullptr, true, none, false, true, true},
                                {"t5", nullptr, none, none, false, true, true},
                                {"t5", nullptr, false, none, true, false, false},
                                {"t5", "4.57.1", true, none, false, true, true},
                                {"t5", "4.57.1", false, none, true, false, false},
                                {"t5", "4.57.1", false, none, false, false, false, "missing: lm_head.weight (40, 8)"},
                                {"t5", "4.57.1", true, none, true, false, false,
                                 "contradiction: shared.weight and lm_head.weight are one tensor, but differ"},
                                {"t5", "4.57.1", true, false, false, false, false,
                                 "key \"scale_decoder_outputs\" is false, but only true is supported"},
                                {"t5", "5.12.1", true, true, false, true, true},
                                {"t5", "5.12.1", true, false, true, false, false},
                                {"t5", "5.12.1", true, true, true, false, true},
                                {"t5", "5.12.1", true, false, false, true, false},
                                {"t5", "5.0.0", true, none, false, true, true},
                                {"t5", "5.0.0", false, none, true, false, false},
                                {"t5", nullptr, true, false, true, false, false},
                                {"mt5", "4.10.0", none, none, true, false, false},
                                {"mt5", "4.10.0", false, none, true, false, false},
                                {"mt5", "4.10.0", true, none, false, true, true},
                                {"mt5", "5.12.1", true, none, false, true, false},
                                {"mt5", "5.12.1", true, none, true, false, false},
                                {"mt5", "5.12.1", none, none, false, true, false},
                                {"mt5", "5.12.1", true, true, false, false, false,
                                 "key \"scale_decoder_outputs\" is true, but only false is supported"},
                                {"mt5", nullptr, true, none, false, false, false,
                                 "key \"tie_word_embeddings\" is true without a transformers_version"},
                                {"mt5", nullptr, none, none, true, false, false}};
  const Checkpoint untied = checkpoint_of(small_model<T5v11<float>>(small_t5<false>()));
  for (const Case& each : cases) {
    Checkpoint checkpoint = untied;
    checkpoint.config.update(
        {{"model_type", each.type}, {"tie_word_embeddings", each.tied}, {"scale_decoder_outputs", each.scaled}});
    if (each.version) checkpoint.config["transformers_version"] = each.version;
    if (!each.own) checkpoint.tensors.erase("lm_head.weight");
    SCOPED_TRACE(checkpoint.config.dump());
    if (each.refusal) {
      expect_contains(error_of([&] { load_stored<T5v11<float>>(checkpoint); }), each.refusal);
      continue;
    }
    const auto model = load_stored<T5v11<float>>(checkpoint).model;
    EXPECT_EQ(!model.head.has_value(), each.is_tied);
    EXPECT_DOUBLE_EQ(model.logit_scale, each.is_scaled ? 1 / std::sqrt(8.0) : 1);
    const Checkpoint again = checkpoint_of(model);
    const auto twice = load_stored<T5v11<float>>(again).model;
    expect_identical_models(twice, model);
    EXPECT_EQ(twice.logit_scale, model.logit_scale);
    EXPECT_EQ(again.config.contains("transformers_version"), each.is_tied != each.is_scaled)
        << "what both versions understand";
  }
}

TEST(FolderSettings, FactorOfLongRopeByVersion) {
  Llama<>::Config config = small_llama();
  config.layers = 1;
  config.block.heads = 2;
  config.position = {.base = 500, .scaling = LongScaling{{1, 1.5}, {2, 4}, 4, 16}};
  const Checkpoint stored = checkpoint_of(small_model<Llama<float>>(config));
  struct Case {
    const char* version;
    bool newer, outside, inside;  // rope_parameters; where the original length 4 of 16 stands
    double factor;
    double attention_factor;  // 0: refused
    const char* refusal = nullptr;
  };
  const double of_ratio = std::sqrt(1 + std::log(4) / std::log(4)),
               of_factor = std::sqrt(1 + std::log(8) / std::log(4)), whole = std::sqrt(1 + std::log(8) / std::log(16));
  const std::vector<Case> cases{
      {nullptr, false, true, false, 0, of_ratio},
      {nullptr, false, true, true, 4, of_ratio},
      {nullptr, false, true, false, 8, 0, "key \"factor\" is 8, but the ratio of the lengths is 4"},
      {"4.57.1", false, true, false, 8, of_ratio},
      {"5.12.1", true, false, true, 8, of_factor},
      {"5.12.1", true, false, true, 0, of_ratio},
      {nullptr, true, false, true, 8, of_factor},
      {"5.0.0", false, true, false, 8, of_factor},
      {"4.57.1", false, false, true, 8, 0,
       "key \"original_max_position_embeddings\" is 4, but transformers 4 takes max_position_embeddings, 16"},
      {nullptr, false, false, false, 8, whole},
      {"5.12.1", true, false, false, 8, whole}};
  for (const Case& each : cases) {
    Checkpoint checkpoint = stored;
    if (each.version) checkpoint.config["transformers_version"] = each.version;
    nlohmann::json rope = checkpoint.config.at("rope_scaling");
    for (const char* key : {"rope_scaling", "original_max_position_embeddings"}) checkpoint.config.erase(key);
    if (each.factor > 0) rope["factor"] = each.factor;
    if (each.inside) rope["original_max_position_embeddings"] = 4;
    if (each.outside) checkpoint.config["original_max_position_embeddings"] = 4;
    checkpoint.config[each.newer ? "rope_parameters" : "rope_scaling"] = rope;
    SCOPED_TRACE(checkpoint.config.dump());
    if (each.refusal) {
      expect_contains(error_of([&] { load_stored<Llama<float>>(checkpoint); }), each.refusal);
      continue;
    }
    const auto model = load_stored<Llama<float>>(checkpoint).model;
    EXPECT_DOUBLE_EQ(model.position.frequencies->attention_factor, each.attention_factor);
    const auto again = load_stored<Llama<float>>(checkpoint_of(model)).model;
    EXPECT_EQ(again.config, model.config);
    rope["attention_factor"] = 1.25;  // said, it counts
    checkpoint.config[each.newer ? "rope_parameters" : "rope_scaling"] = rope;
    EXPECT_EQ(load_stored<Llama<float>>(checkpoint).model.position.frequencies->attention_factor, 1.25);
  }
}

TEST(FolderSettings, ScalesOfYarn) {
  Llama<>::Config config = small_llama();
  config.layers = 1;
  config.position.scaling = YarnScaling{4, 4};
  Checkpoint checkpoint = checkpoint_of(small_model<Llama<float>>(config));
  const auto factor = [&](const nlohmann::json& scale, const nlohmann::json& of_all) {
    checkpoint.config["rope_scaling"].update({{"mscale", scale}, {"mscale_all_dim", of_all}});
    return load_stored<Llama<float>>(checkpoint).model.position.frequencies->attention_factor;
  };
  EXPECT_NEAR(factor(nullptr, nullptr), 1.1386294, 1e-7);
  EXPECT_NEAR(factor(1, 0.7), 1.1386294 / 1.0970406, 1e-7);
  EXPECT_NEAR(factor(0.707, 1), 1.0980110 / 1.1386294, 1e-7);
  EXPECT_NEAR(factor(2, nullptr), 1.1386294, 1e-7);
  EXPECT_NEAR(factor(nullptr, 2), 1.1386294, 1e-7);
  EXPECT_NEAR(factor(0, 2), 1.1386294, 1e-7);
  expect_contains(error_of([&] { factor(-1, 1); }), "rope_scaling: key \"mscale\" is -1, which is not positive");
}

TEST(FolderSettings, WindowsThatAreSwitchedOff) {
  Llama<>::Config config = small_llama();
  config.block.attention.bias = true;
  config.block.attention.output_bias = false;
  Checkpoint qwen = checkpoint_of(small_model<Qwen2<float>>(config));
  qwen.config.erase("layer_types");
  const auto load = [&](const nlohmann::json& used, const nlohmann::json& window, Index from) {
    qwen.config.update({{"use_sliding_window", used}, {"sliding_window", window}, {"max_window_layers", from}});
    return load_stored<Qwen2<float>>(qwen).model;
  };
  const auto ids = matrix<Id>({{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}});
  Context ctx;
  const auto off = load(false, 4, 0), none = load(false, nullptr, 0), half = load(true, 4, 1);
  const auto logits = [&](const auto& model) { return model(ctx, {.ids = ids}); };
  EXPECT_TRUE(identical(logits(off), logits(none)));
  EXPECT_FALSE(identical(logits(half), logits(none)));
  EXPECT_EQ(half.decoder.blocks[0].attention.window, 0);
  EXPECT_EQ(half.decoder.blocks[1].attention.window, 4);
}

TEST(FolderSettings, HeadsOfAnyWidth) {
  Llama<>::Config config{.vocabulary = 11,
                         .max_positions = 16,
                         .layers = 1,
                         .block = {.width = 24,
                                   .hidden = 12,
                                   .heads = 2,
                                   .dropout = 0,
                                   .attention = {.kv_heads = 1, .head_width = 16, .bias = false, .window = 8},
                                   .residual = {.norm = {.epsilon = 1e-5}}}};
  Checkpoint mistral = checkpoint_of(small_model<Mistral<float>>(config));
  EXPECT_EQ(mistral.config.at("head_dim"), 16);
  const auto model = load_stored<Mistral<float>>(mistral).model;
  const auto& attention = model.decoder.blocks[0].attention;
  EXPECT_EQ(attention.query.weight.shape(), (Shape{32, 24}));
  EXPECT_EQ(attention.key.weight.shape(), (Shape{16, 24}));
  EXPECT_DOUBLE_EQ(attention.scale, 0.25);
  EXPECT_EQ(model.position.config->head_width, 16);
  config.block.width = 32;
  mistral = checkpoint_of(small_model<Mistral<float>>(config));
  mistral.config["head_dim"] = nullptr;
  EXPECT_EQ(load_stored<Mistral<float>>(mistral).model.decoder.blocks[0].attention.head_width, 16);
}

TEST(FolderSettings, SentencesDoNotDependOnTheirPadding) {
  const auto model = small_model<Bert<float>>(small_bert());
  const auto alone = matrix<Id>({{2, 3, 4}}), padded = matrix<Id>({{2, 3, 4, 0, 0, 0}, {1, 5, 6, 7, 8, 2}});
  Context ctx;
  const auto one = model(ctx, {.ids = alone}), both = model(ctx, {.ids = padded, .lengths = lengths({3, 6})});
  EXPECT_TRUE(identical(one, both.slice(0, 0, 1).slice(1, 0, 3)));
  EXPECT_TRUE(identical(model.pool(ctx, one), model.pool(ctx, both).slice(0, 0, 1)));
}

TEST(FolderSettings, FirstLossOfT5) {
  const Index vocabulary = 1000, width = 256;
  auto config = detail::t5_config<T5v11<>::Config>(2, width, 512, 4, false);
  config.source_vocabulary = config.target_vocabulary = vocabulary;
  config.sharing = Sharing::source_and_target;
  T5v11<float> model(config);
  initialize_t5(model, width, 64, 3);
  const auto ids = [&](std::uint64_t seed) { return random_ids(Shape{8, 20}, 0, static_cast<Id>(vocabulary), seed); };
  const auto source = ids(1), target = ids(2), next = ids(3);
  Context ctx;
  const auto logits = model(ctx, {.source = source, .target = target});
  double loss = 0;
  for (Index row = 0; row < next.size(); ++row) {
    double sum = 0;
    for (Index v = 0; v < vocabulary; ++v) sum += std::exp(static_cast<double>(logits.flat()(row, v)));
    loss += std::log(sum) - static_cast<double>(logits.flat()(row, next.data()[row]));
  }
  EXPECT_NEAR(loss / static_cast<double>(next.size()), std::log(1000.0) + 0.5, 0.25) << "of logits of variance 1";
}

template <class Model>
void expect_only_matrices_decay(const typename Model::Config& config) {
  const Model before = small_model<Model>(config);
  Model model = before;
  Adam<Model>(model, {.decay = 0.5}).step({}, {.learning_rate = 1}, model, zeros_like(model));
  Index vectors = 0, matrices = 0;
  walk(
      [&](const std::string& path, const Leaf&, const auto& now, const auto& then) {
        const bool matrix = now.rank == 2;
        (matrix ? matrices : vectors) += 1;
        for (Index i = 0; i < now.size(); ++i)
          ASSERT_EQ(now.data()[i], matrix ? then.data()[i] / 2 : then.data()[i]) << path;
      },
      model, before);
  EXPECT_GT(vectors, 0);
  EXPECT_GT(matrices, 0);
}

TEST(FolderSettings, OnlyMatricesOfTheirModelsDecay) {
  expect_only_matrices_decay<Gpt2<float>>(small_gpt2());
  expect_only_matrices_decay<Llama<float>>(small_llama());
  expect_only_matrices_decay<Qwen3<float>>(small_llama<Qwen3<>::Config>());
  auto gemma = small_llama<Gemma2<>::Config>();
  gemma.block.attention.scores.cap = 50;
  expect_only_matrices_decay<Gemma2<float>>(gemma);
  expect_only_matrices_decay<T5<float>>(small_t5<true>());
}

}  // namespace eigenformer::test
