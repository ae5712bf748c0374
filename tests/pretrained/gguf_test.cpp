// Models from GGUF files: of every architecture, with the values of the model that went in, of llama.cpp's files and of
// transformers.
#include "eigenformer/pretrained/gguf.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <variant>
#include <vector>

#include "eigenformer/decode/generate.hpp"
#include "eigenformer/pretrained/hugging_face.hpp"
#include "pretrained/gguf_convert.hpp"
#include "pretrained/stored.hpp"
#include "pretrained/tiny_reference.hpp"
#include "support/shared_data.hpp"
#include "support/tensors.hpp"

namespace eigenformer::test {
namespace {

template <class Model>
void expect_same_weights(const Model& got, const Model& want) {
  walk(
      [](const std::string& path, const Leaf&, const auto& a, const auto& b) {
        ASSERT_EQ(a.size(), b.size()) << path;
        EXPECT_EQ(std::memcmp(a.data(), b.data(), static_cast<std::size_t>(a.size()) * sizeof(*a.data())), 0) << path;
      },
      got, want);
}

/// What goes through a file comes back.
template <class Model>
Pretrained<Model> expect_round_trip(const Model& model, const PretrainedFacts& facts = {.max_positions = 16}) {
  Gguf file = open_gguf(to_gguf(checkpoint_of(model, facts)));
  auto loaded = load_gguf<Model>(file);
  expect_same_weights(loaded.model, model);
  return loaded;
}

/// A LLaMA as a file, changed.
template <class F>
std::string llama_error(F&& change, const PretrainedOptions& options = {}) {
  GgufBytes bytes = to_gguf(checkpoint_of(small_model<Llama<float>>(small_llama())));
  change(bytes);
  Gguf file = open_gguf(bytes);
  return error_of([&] { load_gguf<Llama<float>>(file, options); });
}

Tensor<float, 3> logits_of(const auto& model, const Tensor<Id, 2>& ids) {
  Context ctx;
  return Tensor<float, 3>(model(ctx, {.ids = ids}));
}

}  // namespace

TEST(GgufModels, ComeBack) {
  auto qwen2 = small_llama();
  qwen2.block.attention.bias = true;
  qwen2.block.attention.output_bias = false;
  qwen2.position.scaling = YarnScaling{.factor = 2, .original = 8};
  EXPECT_EQ(expect_round_trip(small_model<Qwen2<float>>(qwen2)).model.config.position.scaling,
            decltype(RotaryConfig::scaling)(YarnScaling{.factor = 2, .original = 8}));
  auto qwen3 = small_llama<Qwen3<>::Config>();
  qwen3.tied = true;
  qwen3.block.attention.head_width = 6;
  const PretrainedFacts facts{.bos = 3, .pad = 4, .eos = {5}, .max_positions = 16};
  const auto loaded = expect_round_trip(small_model<Qwen3<float>>(qwen3), facts);
  EXPECT_EQ(loaded.facts.bos, 3);
  EXPECT_EQ(loaded.facts.pad, 4);
  EXPECT_EQ(loaded.facts.eos, std::vector<Id>{5});
  EXPECT_EQ(loaded.facts.max_positions, 16);
  expect_round_trip(small_model<Gpt2<float>>(small_gpt2()));
  expect_round_trip(small_model<Bert<float>>(small_bert(false)));
  EXPECT_FLOAT_EQ(static_cast<float>(expect_round_trip(small_model<T5<float>>(small_t5<true>())).model.logit_scale),
                  0.35355339f);
  expect_round_trip(small_model<T5v11<float>>(small_t5<false>()));
}

// LLaMA's rows are in another order there; the logits are the same but for the order of additions.
TEST(GgufModels, OfLlamaHaveInterleavedPairs) {
  const Tensor<Id, 2> ids = random_ids(Shape{2, 7}, 0, 11, 3);
  for (const decltype(RotaryConfig::scaling)& scaling :
       {decltype(RotaryConfig::scaling)(), decltype(RotaryConfig::scaling)(LinearScaling{4}),
        decltype(RotaryConfig::scaling)(YarnScaling{.factor = 2, .original = 8}),
        decltype(RotaryConfig::scaling)(Llama3Scaling{.factor = 8, .low = 1, .high = 4, .original = 8})}) {
    auto config = small_llama();
    config.block.attention.head_width = 4;
    config.position.scaling = scaling;
    const auto model = small_model<Llama<float>>(config);
    Gguf file = open_gguf(to_gguf(checkpoint_of(model)));
    const auto loaded = load_gguf<Llama<float>>(file);
    EXPECT_EQ(loaded.model.config.position.layout, RotaryLayout::interleaved);
    const Tensor<float, 3> want = logits_of(model, ids);
    EXPECT_LE(difference(logits_of(loaded.model, ids), want), 1e-6 * magnitude(want));
    if (std::holds_alternative<Llama3Scaling>(scaling)) continue;  // has become divisors
    const Checkpoint before = checkpoint_of(model), after = checkpoint_of(loaded.model, loaded.facts);
    EXPECT_EQ(after.config["rope_scaling"], before.config["rope_scaling"]);
    for (const auto& [name, tensor] : before.tensors)
      EXPECT_EQ(after.tensors.at(name).values, tensor.values) << name << ", in halves again";
  }
}

TEST(GgufModels, AreFoundByTheirArchitecture) {
  const TemporaryFolder folder;
  write_file(folder / "x.gguf", to_gguf(checkpoint_of(small_model<Gpt2<float>>(small_gpt2()))).bytes());
  EXPECT_TRUE(std::holds_alternative<Gpt2<double>>(load_pretrained<double>(folder / "x.gguf").model));
  expect_contains(error_of([&] { load_gguf<Llama<float>>(folder / "x.gguf"); }),
                  R"(key "general.architecture" is "gpt2": this file holds another type of model)");
  expect_contains(error_of([&] { load_gguf<T5<float>>(folder / "x.gguf"); }), "another type of model");
  Gguf other = open_gguf(GgufBytes().key("general.architecture", "mamba"));
  expect_contains(error_of([&] { load_pretrained(other); }),
                  R"([pretrained] file: key "general.architecture" is "mamba", but only gpt2, llama, qwen2, qwen3, )"
                  "gemma2, phi2, bloom, bert, t5 are supported");
  Gguf none = open_gguf(GgufBytes().key("general.name", "x"));
  expect_contains(error_of([&] { load_pretrained(none); }), R"(key "general.architecture" is missing)");
}

TEST(GgufModels, WhatIsNotUnderstoodIsAnError) {
  const auto with_key = [](const std::string& key, auto value, const PretrainedOptions& options = {}) {
    return llama_error([&](GgufBytes& file) { file.key(key, value); }, options);
  };
  expect_contains(with_key("llama.attention.sliding_window", 4u),
                  R"(key "llama.attention.sliding_window" is unknown, with the value 4)");
  Gguf trusted = open_gguf(to_gguf(checkpoint_of(small_model<Llama<float>>(small_llama())))
                               .key("llama.attention.sliding_window", 4u)
                               .key("mine.note", "anything"));
  EXPECT_NO_THROW(load_gguf<Llama<float>>(trusted, {.ignored_keys = {"llama.attention.sliding_window"}}));
  expect_contains(with_key("llama.expert_count", 8u), R"(key "llama.expert_count" is 8, but only 0 is supported)");
  expect_contains(with_key("llama.rope.scaling.type", "longrope"),
                  R"(is "longrope", but only none, linear and yarn are supported)");
  expect_contains(with_key("llama.rope.scaling.attn_factor", 2.0f), "is 2 without yarn");
  expect_contains(with_key("llama.rope.scaling.yarn_log_multiplier", 0.5f), "but only 0.0 is supported");
  expect_contains(with_key("split.count", 3u), R"(key "split.count" is 3: the parts of a model must be joined first)");
  const auto with_tensor = [](const std::string& name, std::vector<Index> shape) {
    return llama_error([&](GgufBytes& file) {
      Index size = 1;
      for (const Index extent : shape) size *= extent;
      file.tensor(name, shape, std::vector<float>(static_cast<std::size_t>(size), 2.0f));
    });
  };
  expect_contains(with_tensor("rope_freqs.weight", {3}), "rope_freqs.weight is (3) of F32, not 1 numbers");
  expect_contains(with_tensor("blk.0.ffn_gate_inp.weight", {3}), "extra: blk.0.ffn_gate_inp.weight (3)");
  expect_contains(
      llama_error([](GgufBytes& file) { file.tensor("blk.7.attn_q.bias", {256}, 16, std::string(66, '\0')); }),
      "missing: blk.0.attn_q.bias (8)");
  expect_contains(llama_error([](GgufBytes& file) {
                    const std::size_t at = file.infos.find("blk.0.attn_v.weight");
                    file.infos.replace(at + 19 + 4 + 16, 4, bytes_of(std::uint32_t{26}));  // I32
                  }),
                  "dtype: blk.0.attn_v.weight is I32, which cannot be read as numbers");

  // Tokens that the vocabulary does not have are none; how to draw them is not followed.
  Gguf file = open_gguf(to_gguf(checkpoint_of(small_model<Llama<float>>(small_llama())))
                            .key("tokenizer.ggml.eot_token_id", 4294967295u)
                            .key("tokenizer.ggml.eom_token_id", 7u)
                            .key("general.sampling.temp", 0.5f));
  const auto facts = load_gguf<Llama<float>>(file).facts;
  EXPECT_EQ(facts.eos, std::vector<Id>{7});
  EXPECT_EQ(facts.bos, std::nullopt);
  EXPECT_EQ(facts.warnings, std::vector<std::string>{R"(file: key "general.sampling.temp" is 0.5)"});
}

namespace {

class SharedGgufModels : public testing::Test {
 protected:
  const std::filesystem::path folder = shared_data() / "gguf";

  void SetUp() override {
    if (!std::filesystem::exists(folder / "golden")) GTEST_SKIP() << "the files are not here";
  }

  /// float32 at the end of an .npy file.
  std::vector<float> npy(const std::string& name, std::size_t count) const {
    const std::string bytes = read_file(folder / "golden" / name);
    std::vector<float> values(count);
    if (bytes.size() > 4 * count) std::memcpy(values.data(), bytes.data() + bytes.size() - 4 * count, 4 * count);
    return values;
  }
};

}  // namespace

// Logits of numpy in float64 on the same values, and the tokens that follow from them.
TEST_F(SharedGgufModels, OfLlamaCppGiveTheReferenceInEveryFormat) {
  const std::vector<Id> random_prompt{1, 17, 50, 42, 42, 63, 3, 0};
  for (const std::string name : {"stories260K-f32", "stories260K-f16", "stories260K-bf16", "stories260K-q8_0",
                                 "stories260K-q4_0", "stories260K-q5_0", "stories260K-q4_k_m", "rand256-q4_k_m"}) {
    SCOPED_TRACE(name);
    const auto golden = nlohmann::json::parse(read_file(folder / "golden" / (name + ".json")));
    const auto loaded = load_gguf<Llama<float>>(folder / name.substr(0, name.find('-')) / (name + ".gguf"));
    const bool stories = name.starts_with("stories");
    EXPECT_EQ(loaded.facts.bos, stories ? std::optional<Id>(1) : std::nullopt);
    EXPECT_EQ(loaded.facts.eos, stories ? std::vector<Id>{2} : std::vector<Id>{});
    EXPECT_EQ(loaded.facts.max_positions, stories ? 512 : 64);
    Context ctx;
    std::vector<Id> ids = random_prompt;
    for (const auto& prompt : golden.at("prompts")) {
      const auto tokens = prompt.at("ids").get<std::vector<Id>>();
      if (prompt.contains("text") && prompt["text"] == golden.at("logits_of")) ids = tokens;
      EXPECT_EQ(generate(ctx, loaded.model, {tokens}, {.max_tokens = 64})[0].tokens,
                prompt.at("greedy_float64").get<std::vector<Id>>());
    }
    const auto logits = loaded.model(ctx, {.ids = {ids.data(), Shape{Index{1}, static_cast<Index>(ids.size())}}});
    const std::vector<float> want = npy(name + ".float64.npy", static_cast<std::size_t>(logits.size()));
    for (Index i = 0; i < logits.size(); ++i)
      ASSERT_NEAR(logits.data()[i], want[static_cast<std::size_t>(i)], 5e-5) << i;
  }
}

// Blocks of any type go into any format, a matrix at a time.
TEST_F(SharedGgufModels, ArePackedAsTheyAreRead) {
  const std::filesystem::path path = folder / "stories260K/stories260K-q4_0.gguf";
  const Tensor<Id, 2> ids = random_ids(Shape{2, 9}, 0, 512, 1);
  Context ctx;
  for (const Format format : {Format::bf16, Format::int8, Format::int4}) {
    auto packed = load_gguf<Llama<float>>(path);
    pack(ctx, packed.model, {.format = format, .keep_values = false});
    const auto loaded = load_gguf<Llama<float>>(path, {.format = format});
    EXPECT_TRUE(identical(loaded.model(ctx, {.ids = ids}), packed.model(ctx, {.ids = ids})));
  }
}

TEST_F(SharedGgufModels, BrokenAsModelsAreRefused) {
  const std::map<std::string, std::string> reasons{
      {"nano-arch", R"(key "general.architecture" is "nosuch")"},
      {"nano-heads-0", R"(key "llama.attention.head_count" is 0, which is not between 1 and)"},
      {"nano-key-missing", R"(key "llama.attention.head_count" is missing)"},
      {"nano-key-type", R"(key "llama.attention.head_count" is or contains "2", which is not an integer)"},
      {"nano-layers-2", "missing: blk.1.attn_norm.weight (8)"},
      {"nano-no-arch", R"(key "general.architecture" is missing)"},
      {"nano-tensor-missing", "missing: blk.0.ffn_up.weight (8, 8)"}};
  for (const auto& [name, reason] : reasons)
    expect_contains(error_of([&, &n = name] { load_pretrained(folder / "broken" / (n + ".gguf")); }), reason);
  EXPECT_NO_THROW(load_pretrained(folder / "broken/nano-ok.gguf"));
}

// Folders as GGUF files give what transformers makes of them.
TEST(TinyGguf, GivesTheReference) {
  const std::filesystem::path all = shared_data() / "hf-tiny";
  if (!std::filesystem::exists(all)) GTEST_SKIP() << "the files are not here";
  for (const char* const name : {"llama", "llama_linear", "llama_llama3", "llama_yarn", "qwen2", "qwen3", "gpt2",
                                 "gemma2", "phi", "bloom", "bert", "roberta", "t5", "t5v11"}) {
    SCOPED_TRACE(name);
    TinyReference reference(all / name);
    Gguf file = open_gguf(to_gguf(read_checkpoint(all / name)));
    const auto loaded = load_pretrained<float>(file);
    std::visit([&](const auto& model) { expect_tiny_values(model, reference, /*pooled=*/false); }, loaded.model);
    std::vector<Id> eos;
    if (reference.config.value("eos_token_id", nlohmann::json()).is_number()) eos = {reference.config["eos_token_id"]};
    EXPECT_EQ(loaded.facts.eos, eos);
  }
}

}  // namespace eigenformer::test
