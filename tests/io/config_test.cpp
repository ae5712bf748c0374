// Every field of every part's config, set from a whole model: it arrives where it belongs, and comes back from a file.
#include "eigenformer/io/config.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "eigenformer/block/deep_norm.hpp"
#include "eigenformer/block/gated_residual.hpp"
#include "eigenformer/block/sandwich.hpp"
#include "eigenformer/io/checkpoint.hpp"
#include "eigenformer/layer/attention/relative_attention.hpp"
#include "eigenformer/layer/attention/transformer_xl_attention.hpp"
#include "eigenformer/layer/norm/dynamic_tanh.hpp"
#include "eigenformer/layer/norm/scale_norm.hpp"
#include "eigenformer/model/bert.hpp"
#include "eigenformer/model/decoders.hpp"
#include "eigenformer/model/marian.hpp"
#include "eigenformer/model/paper.hpp"
#include "eigenformer/model/t5.hpp"
#include "eigenformer/train/trainer.hpp"
#include "support/error.hpp"
#include "support/files.hpp"
#include "support/tensors.hpp"

namespace eigenformer::test {
namespace {

/// Calls f(path, name, field) for every leaf, also of what is optional and given, and of lists of configs.
template <class Value>
void each_leaf(const std::string& path, const std::string& name, Value& value, const auto& f) {
  if constexpr (HasFields<Value>) {
    Value::fields(
        [&](std::string_view field, auto& inner) {
          each_leaf(path.empty() ? std::string(field) : path + "." + std::string(field), std::string(field), inner, f);
        },
        value);
  } else if constexpr (requires {
                         requires HasFields<typename Value::value_type>;
                         value.begin();
                       }) {
    for (std::size_t i = 0; i < value.size(); ++i) each_leaf(path + "." + std::to_string(i), name, value[i], f);
  } else if constexpr (requires {
                         requires HasFields<typename Value::value_type>;
                         value.has_value();
                       }) {
    if (value) each_leaf(path, name, *value, f);
  } else if constexpr (requires { value.valueless_by_exception(); }) {
    std::visit(
        [&](auto& kind) {
          if constexpr (HasFields<std::remove_reference_t<decltype(kind)>>) each_leaf(path, name, kind, f);
        },
        value);
  } else {
    f(path, name, value);
  }
}

/// Another value that makes a model as well: what is not here is a flag, or a real that may be anything in (0, 1).
const std::map<std::string, Index> other_counts{{"vocabulary", 9},
                                                {"source_vocabulary", 9},
                                                {"target_vocabulary", 9},
                                                {"max_positions", 14},
                                                {"layers", 3},
                                                {"encoder_layers", 3},
                                                {"decoder_layers", 3},
                                                {"types", 3},
                                                {"width", 16},
                                                {"hidden", 10},
                                                {"heads", 4},
                                                {"kv_heads", 1},
                                                {"head_width", 6},
                                                {"window", 2},
                                                {"clip", 3},
                                                {"buckets", 6},
                                                {"furthest", 11},
                                                {"rotated", 2},
                                                {"original", 9}};
const std::map<std::string, double> other_reals{{"base", 50}, {"cap", 0.3},    {"logit_cap", 0.3}, {"factor", 3},
                                                {"fast", 9},  {"slow", 0.5},   {"low", 0.7},       {"high", 5},
                                                {"alpha", 2}, {"epsilon", 0.4}};

template <class Value>
void change(Value& value, const std::string& name) {
  if constexpr (std::is_same_v<Value, bool>) {
    value = !value;
  } else if constexpr (std::is_same_v<Value, std::optional<bool>>) {
    value = name == "final_norm" ? !value.value_or(false) : !value.value_or(true);
  } else if constexpr (std::is_enum_v<Value>) {
    value = static_cast<Value>(0);
  } else if constexpr (std::is_same_v<Value, Index> || std::is_same_v<Value, std::optional<Index>>) {
    value = other_counts.at(name);
  } else if constexpr (std::is_same_v<Value, std::vector<double>>) {
    value.back() *= 1.5;
  } else if constexpr (std::is_same_v<Value, double> || std::is_same_v<Value, std::optional<double>>) {
    const auto found = other_reals.find(name);
    value = found == other_reals.end() ? 0.3 : found->second;
  }
}

/// A random weight depends on its name and place alone.
template <class Model>
void draw(Model& model) {
  walk(
      [](const std::string& path, const Leaf& leaf, auto& tensor) {
        RandomSequence random(std::hash<std::string>()(path), 1);
        for (Index i = 0; i < tensor.size(); ++i)
          tensor.data()[i] = (leaf.init == Init::ones ? 1 : 0) + 0.5 * random.normal();
      },
      model);
}

/// What a model computes on something fixed, with dropout; and the names and shapes of its weights.
template <class Model>
std::vector<double> outputs_of(const Model& model) {
  Context ctx;
  Random random{.seed = 5};
  ctx.random = &random;
  const auto ids = random_ids(Shape{2, 12}, 0, 7, 3);
  const auto y = [&] {
    if constexpr (requires { model.encode(ctx, ids); }) return model(ctx, {.source = ids, .target = ids});
    else if constexpr (requires { model.pool(ctx, {}); }) return model.pool(ctx, model(ctx, {.ids = ids}));
    else return model(ctx, {.ids = ids});
  }();
  return {y.data(), y.data() + y.size()};
}
template <class Model>
std::vector<std::string> shapes_of(const Model& model) {
  std::vector<std::string> shapes;
  walk([&](const std::string& path, const Leaf&,
           const auto& tensor) { shapes.push_back(path + " " + to_string(tensor.shape())); },
       model);
  return shapes;
}

template <class Model>
void expect_comes_back(const Model& model, const TemporaryFolder& folder) {
  save(folder / "model.safetensors", model);
  const auto loaded = load<Model>(folder / "model.safetensors");
  EXPECT_EQ(config_text(loaded.config), config_text(model.config));
  EXPECT_TRUE(loaded.config == model.config);
  walk([](const std::string& path, const Leaf&, const auto& a,
          const auto& b) { EXPECT_TRUE(std::equal(a.data(), a.data() + a.size(), b.data())) << path; },
       model, loaded);
}

/// Changes every field of a config that makes a model. `refused`: widths and heads that are said twice, and
/// differently.
template <class Model>
void expect_every_field(const typename Model::Config& config, const std::set<std::string>& silent = {},
                        const std::string& within = "") {
  const TemporaryFolder folder;
  Model plain(config);
  draw(plain);
  expect_comes_back(plain, folder);
  const auto outputs = outputs_of(plain);
  const auto shapes = shapes_of(plain);
  std::vector<std::string> paths;
  auto counted = config;
  each_leaf("", "", counted, [&](const std::string& path, const std::string&, auto&) { paths.push_back(path); });
  std::erase_if(paths, [&](const std::string& path) { return !path.starts_with(within); });
  EXPECT_FALSE(paths.empty());
  for (const std::string& path : paths) {
    SCOPED_TRACE(path);
    auto changed = config;
    nlohmann::json want;
    bool bad = false;  // a part must say what the whole says, if that says it; a window has no meaning across
    each_leaf("", "", changed, [&](const std::string& at, const std::string& name, auto& field) {
      if (at != path) return;
      change(field, name);
      want = detail::ConfigJson<std::remove_cvref_t<decltype(field)>>::write(field);
      const bool outermost = path == "block.width";
      bad = (name == "width" && !outermost) || path == "decoder_block.cross_attention.window" ||
            (name == "head_width" && (path.find("per_head") != std::string::npos || path.starts_with("position"))) ||
            (name == "heads" && path.find("scores") != std::string::npos) ||
            (name == "hidden" && path.find("feed_forward") != std::string::npos) ||
            (name == "heads" && path.find("attention") != std::string::npos &&
             path.find("cross_attention") == std::string::npos) ||
            (name == "heads" && path.find("position") != std::string::npos) ||
            (name == "max_positions" && path == "position.max_positions" && !std::is_same_v<Model, Bart<double>>);
    });
    if (bad) {
      EXPECT_NE(error_of([&] { Model{changed}; }), "");
      continue;
    }
    if constexpr (requires { changed.each_layer; })
      if (path == "layers" && !changed.each_layer.empty()) changed.each_layer.push_back(changed.block);
    if constexpr (requires { changed.each_layer; })
      if (path == "block.width")
        for (auto& each : changed.each_layer) each.width = changed.block.width;
    if constexpr (requires { changed.decoder_block->width; })
      if (path == "block.width") changed.decoder_block->width = changed.block.width;
    Model model(changed);
    draw(model);
    each_leaf("", "", model.config, [&](const std::string& at, const std::string&, auto& field) {
      if (at == path) {
        EXPECT_EQ(detail::ConfigJson<std::remove_cvref_t<decltype(field)>>::write(field), want);
      }
    });
    if (!silent.contains(path)) {
      EXPECT_TRUE(shapes_of(model) != shapes || outputs_of(model) != outputs) << "nothing of it shows";
    }
    expect_comes_back(model, folder);
  }
}

template <class Model>
typename Model::Config small() {
  typename Model::Config config{.vocabulary = 7,
                                .max_positions = 20,
                                .layers = 2,
                                .block = {.width = 8, .hidden = 6, .heads = 2, .dropout = 0.1}};
  if constexpr (requires { config.tied; }) config.tied = false;
  return config;
}
template <class Model>
typename Model::Config small_pair() {
  typename Model::Config config{.source_vocabulary = 7,
                                .target_vocabulary = 8,
                                .encoder_layers = 2,
                                .decoder_layers = 1,
                                .block = {.width = 8, .hidden = 6, .heads = 2, .dropout = 0.1},
                                .sharing = Sharing::target_and_output,
                                .max_positions = 20};
  config.decoder_block = config.as_decoder();
  config.target_position.emplace();
  return config;
}

template <class Residual, class SelfAttention = Attention<double>>
using Decoding = LanguageModel<EncoderBlock<Residual, SelfAttention>>;

TEST(EveryField, OfGpt2) { expect_every_field<Gpt2<double>>(small<Gpt2<double>>()); }
TEST(EveryField, OfQwen3) { expect_every_field<Qwen3<double>>(small<Qwen3<double>>(), {"max_positions"}); }
TEST(EveryField, OfGemma2) {
  auto config = small<Gemma2<double>>();
  config.block.attention.scores.cap = 1;
  config.logit_cap = 1;
  expect_every_field<Gemma2<double>>(config, {"max_positions"});
}
TEST(EveryField, OfLayersThatDiffer) {
  auto config = small<Gpt2<double>>();
  config.each_layer.assign(2, config.block);
  config.each_layer[1].attention.window = 3;
  const auto path = [](const std::string& text) { return "block." + text; };
  // With a config for each layer, that of all is for the embedding, the positions and the last norm.
  std::set<std::string> silent;
  auto block = config.block;
  each_leaf("block", "", block, [&](const std::string& at, const std::string&, auto&) { silent.insert(at); });
  for (const char* seen : {"dropout", "residual.norm.epsilon", "residual.norm.weight", "residual.norm.bias"})
    silent.erase(path(seen));
  expect_every_field<Gpt2<double>>(config, silent);
}
TEST(EveryField, OfRotaryScalings) {
  const auto check = [](const decltype(RotaryConfig::scaling)& scaling, const std::string& silent = "") {
    auto config = small<Llama<double>>();
    config.position = {.base = 10, .scaling = scaling};
    expect_every_field<Llama<double>>(config, {"position.scaling." + silent}, "position.scaling.");
  };
  check(LinearScaling{2});
  check(NtkScaling{2});
  check(DynamicNtkScaling{2, 4});
  check(YarnScaling{.factor = 2, .original = 64, .fast = 8, .truncated = false});
  check(LongScaling{{1, 2}, {2, 3}, 4, 8}, "short_factors");  // of 12 tokens
  check(LongScaling{{1, 2}, {2, 3}, 20, 40}, "long_factors");
  check(FactorScaling{{1, 2}});
  check(Llama3Scaling{2, 1, 4, 8});
}
TEST(EveryField, OfPhi2) { expect_every_field<Phi2<double>>(small<Phi2<double>>(), {"max_positions"}); }
TEST(EveryField, OfBloom) { expect_every_field<Bloom<double>>(small<Bloom<double>>(), {"max_positions"}); }
TEST(EveryField, OfBert) { expect_every_field<Bert<double>>(small<Bert<double>>()); }
TEST(EveryField, OfRoberta) { expect_every_field<Roberta<double>>(small<Roberta<double>>()); }
TEST(EveryField, OfBertWithShawsAttention) {
  using Model =
      BasicBert<EncoderBlock<PostNorm<double>, RelativeAttention<double>, Mlp<double, Gelu>>, Learned<double>>;
  expect_every_field<Model>(small<Model>());
}
TEST(EveryField, OfTransformerXl) {
  using Model = Decoding<DeepNorm<double>, TransformerXlAttention<double>>;
  expect_every_field<Model>(small<Model>(), {"max_positions"});
}
TEST(EveryField, OfShawsAttentionWithReZero) {
  using Model = Decoding<ReZero<double>, RelativeAttention<double>>;
  auto config = small<Model>();
  config.embedding_norm = true;  // whose config is that of a norm at the end
  expect_every_field<Model>(config, {"max_positions"});
}
TEST(EveryField, OfLayerScale) {
  using Model = Decoding<LayerScale<double, ScaleNorm<double>>>;
  expect_every_field<Model>(small<Model>(), {"max_positions"});
}
TEST(EveryField, OfSandwich) {
  using Model = Decoding<Sandwich<double, DynamicTanh<double>>>;
  expect_every_field<Model>(small<Model>(), {"max_positions"});
}
TEST(EveryField, OfThePaper) {
  using Model = EncoderDecoder<PostNorm<double>>;
  expect_every_field<Model>(small_pair<Model>(), {"max_positions"});
}
TEST(EveryField, OfT5) {
  auto config = small_pair<T5<double>>();
  config.position = {.buckets = 8, .furthest = 6};
  config.target_position = config.position;
  config.final_norm = true;  // as it is without saying
  expect_every_field<T5<double>>(config, {"max_positions"});
}
TEST(EveryField, OfBart) { expect_every_field<Bart<double>>(small_pair<Bart<double>>()); }
TEST(EveryField, OfMarian) { expect_every_field<Marian<double>>(small_pair<Marian<double>>(), {"max_positions"}); }

TEST(ConfigFiles, OfATrainersModel) {
  const TemporaryFolder folder;
  Gpt2<float> model(small<Gpt2<float>>());
  initialize(model, 1);
  save(folder / "x", Trainer(model, {.learning_rate = ConstantRate{1e-3}}));
  EXPECT_TRUE(load<Gpt2<float>>(folder / "x", {.prefix = "model."}).config == model.config);
}

TEST(ConfigFiles, WhatDoesNotFitIsNamed) {
  using Config = Gpt2<>::Config;
  const nlohmann::json good = nlohmann::json::parse(config_text(Config{.vocabulary = 5}));
  const auto refused = [](const nlohmann::json& json) {
    return error_of([&] { parse_config<Config>(json.dump(), "x"); });
  };
  EXPECT_NO_THROW(parse_config<Config>(good.dump(), "x"));
  nlohmann::json bad = good;
  bad.at("block").erase("width");
  EXPECT_EQ(refused(bad), "[config] x: config.block.width is missing");
  bad = good;
  bad.at("block").at("attention")["bais"] = true;
  EXPECT_EQ(refused(bad), "[config] x: config.block.attention.bais is unknown");
  bad = good;
  bad["layers"] = 1.5;
  EXPECT_EQ(refused(bad), "[config] x: config.layers is 1.5, but must be a whole number");
  bad["layers"] = std::uint64_t{1} << 63;
  EXPECT_EQ(refused(bad), "[config] x: config.layers is 9223372036854775808, but must be a whole number");
  bad = good;
  bad["tied"] = 1;
  EXPECT_EQ(refused(bad), "[config] x: config.tied is 1, but must be true or false");
  bad = good;
  bad["logit_cap"] = "1";
  EXPECT_EQ(refused(bad), "[config] x: config.logit_cap is \"1\", but must be a number");
  bad = good;
  bad["each_layer"] = {1};
  EXPECT_EQ(refused(bad), "[config] x: config.each_layer.0 is 1, but must be an object");
  bad["each_layer"] = {{"x", 1}};
  EXPECT_EQ(refused(bad), "[config] x: config.each_layer is not a list");
  EXPECT_EQ(refused(nlohmann::json::array()), "[config] x: config is [], but must be an object");
  EXPECT_EQ(error_of([] { parse_config<Config>("{", "x"); }), "[config] x: the config is no JSON");
  const std::string deep = std::string(200000, '[') + std::string(200000, ']');
  EXPECT_EQ(error_of([&] { parse_config<Config>("{\"vocabulary\":" + deep + "}", "x"); }),
            "[config] x: config.vocabulary is a list, but must be a whole number");

  bad = nlohmann::json::parse(config_text(RotaryConfig{.scaling = YarnScaling{2}}));
  const auto refused_rotary = [](const nlohmann::json& json) {
    return error_of([&] { parse_config<RotaryConfig>(json.dump(), "x"); });
  };
  EXPECT_NO_THROW(parse_config<RotaryConfig>(bad.dump(), "x"));
  bad["layout"] = "thirds";
  EXPECT_EQ(refused_rotary(bad), "[config] x: config.layout is \"thirds\", but must be one of interleaved, halves");
  bad["layout"] = "halves";
  bad["scaling"] = {{"other", nlohmann::json::object()}};
  EXPECT_EQ(refused_rotary(bad), "[config] x: config.scaling.other is unknown");
  bad["scaling"] = {{"linear", {{"factor", nullptr}}}};
  EXPECT_EQ(refused_rotary(bad), "[config] x: config.scaling.linear.factor is null, but must be a number");
  bad["scaling"] = 3;
  EXPECT_EQ(refused_rotary(bad), "[config] x: config.scaling is not an object with one kind");
}

TEST(ConfigFiles, FilesThatDoNotDescribeTheModel) {
  const TemporaryFolder folder;
  const auto path = folder / "x";
  Gpt2<float> model(small<Gpt2<float>>());
  initialize(model, 1);
  const auto write = [&](const std::string& config) {
    SafetensorsWriter writer;
    if (!config.empty()) writer.metadata = {{std::string(config_key), config}};
    walk([&](const std::string& name, const Leaf&, const auto& x) { writer.add(name, x.view()); }, model);
    writer.write(path);
  };
  const auto refused = [&] { return error_of([&] { load<Gpt2<float>>(path); }); };
  write("");
  EXPECT_EQ(refused(), "[load] " + path.string() +
                           ": there is no config in this file: construct the model, and use load(path, model)");
  auto config = model.config;
  config.block.heads = 3;
  config.block.attention.heads = 3;
  config.block.attention.head_width = 0;
  write(config_text(config));
  EXPECT_EQ(refused(), "[load] " + path.string() +
                           ": its config does not describe a model: [attention] 3 heads do not divide model width 8");
  config = small<Gpt2<float>>();
  config.vocabulary = 6;
  write(config_text(config));
  EXPECT_NE(refused().find("does not fit the model:\n  shape: embedding.weight is (7, 8), not (6, 8)"),
            std::string::npos);
  write(config_text(model.config));
  EXPECT_NO_THROW(load<Gpt2<float>>(path));
}

TEST(ConfigFiles, MetadataIsWhatWasGiven) {
  const TemporaryFolder folder;
  Gpt2<float> model(small<Gpt2<float>>());
  initialize(model, 1);
  save(folder / "x", model, {{"epoch", "3"}});
  EXPECT_EQ(load(folder / "x", model), (Metadata{{"epoch", "3"}}));
  EXPECT_EQ(Safetensors(folder / "x").metadata().size(), 3u);
}

}  // namespace
}  // namespace eigenformer::test
