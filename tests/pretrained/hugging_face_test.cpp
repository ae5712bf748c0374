// Every family: saved, the tensors have the names and shapes of the checkpoints that transformers writes (the lists
// below are of those, not of our tables); loaded again, the bits are the same.
#include "eigenformer/pretrained/hugging_face.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "pretrained/stored.hpp"
#include "support/error.hpp"
#include "support/files.hpp"
#include "support/tensors.hpp"

namespace eigenformer::test {
namespace {

/// Saves, compares names and shapes with the list, loads as this type and as any, and saves again.
template <class Model>
Checkpoint expect_saved(const Model& model, const PretrainedFacts& facts, const std::set<std::string>& names) {
  const TemporaryFolder folder;
  save_hugging_face(folder / "a/b", model, facts);
  Checkpoint checkpoint = read_checkpoint(folder / "a/b");
  std::set<std::string> saved;
  for (const auto& [name, tensor] : checkpoint.tensors) saved.insert(name + " " + detail::shape_text(tensor.shape));
  EXPECT_EQ(saved, names);
  EXPECT_EQ(Safetensors(folder / "a/b/model.safetensors").metadata(), (Metadata{{"format", "pt"}}));

  const auto loaded = load_hugging_face<Model>(folder / "a/b");
  expect_identical_models(loaded.model, model);
  EXPECT_EQ(loaded.model.config, model.config);
  EXPECT_EQ(loaded.facts.bos, facts.bos);
  EXPECT_EQ(loaded.facts.eos, facts.eos);
  EXPECT_EQ(loaded.facts.decoder_start, facts.decoder_start);
  const auto any = load_pretrained<float>(folder / "a/b");
  EXPECT_TRUE(std::holds_alternative<Model>(any.model));

  save_hugging_face(folder / "again", loaded.model, loaded.facts);
  EXPECT_EQ(read_file(folder / "again/config.json"), read_file(folder / "a/b/config.json"));
  EXPECT_EQ(read_file(folder / "again/model.safetensors"), read_file(folder / "a/b/model.safetensors"));
  EXPECT_EQ(read_file(folder / "again/generation_config.json"), read_file(folder / "a/b/generation_config.json"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder / "again"), {}), 3);  // nothing temporary is left
  return checkpoint;
}

/// The names with ".weight" and ".bias" of some modules.
void add_modules(std::set<std::string>& names, const std::vector<std::pair<std::string, std::string>>& modules,
                 const std::string& bias) {
  for (const auto& [name, shape] : modules) {
    names.insert(name + ".weight (" + shape + ")");
    if (!bias.empty())
      names.insert(name + ".bias (" +
                   (shape.find(',') == std::string::npos || bias == "out" ? shape.substr(0, shape.find(','))
                                                                          : shape.substr(shape.find(',') + 2)) +
                   ")");
  }
}

}  // namespace

TEST(HuggingFace, Gpt2) {
  std::set<std::string> names{"transformer.wte.weight (7, 4)", "transformer.wpe.weight (5, 4)"};
  add_modules(names,
              {{"transformer.h.0.ln_1", "4"},
               {"transformer.h.0.attn.c_attn", "4, 12"},
               {"transformer.h.0.attn.c_proj", "4, 4"},
               {"transformer.h.0.ln_2", "4"},
               {"transformer.h.0.mlp.c_fc", "4, 16"},
               {"transformer.h.0.mlp.c_proj", "16, 4"},
               {"transformer.ln_f", "4"}},
              "in");
  const auto model = small_model<Gpt2<float>>(small_gpt2());
  Checkpoint checkpoint = expect_saved(model, {.bos = 3, .eos = {3}}, names);
  EXPECT_EQ(checkpoint.config.at("architectures").at(0), "GPT2LMHeadModel");
  EXPECT_EQ(checkpoint.config.at("model_type"), "gpt2");
  // Their matrices are (In, Out), and q, k, v lie side by side.
  const auto& fused = checkpoint.tensors.at("transformer.h.0.attn.c_attn.weight").values;
  const auto& attention = model.decoder.blocks[0].attention;
  for (std::size_t in = 0; in < 4; ++in)
    for (std::size_t out = 0; out < 4; ++out) {
      const auto o = static_cast<Index>(out), i = static_cast<Index>(in);
      EXPECT_EQ(fused[in * 12 + out], attention.query.weight(o, i));
      EXPECT_EQ(fused[in * 12 + 4 + out], attention.key.weight(o, i));
      EXPECT_EQ(fused[in * 12 + 8 + out], attention.value.weight(o, i));
    }
  EXPECT_EQ(checkpoint.tensors.at("transformer.h.0.mlp.c_fc.weight").values[1],
            model.decoder.blocks[0].feed_forward.up.weight(1, 0));

  // Without the prefix, as the first release was; with masks, which are no weights.
  Checkpoint bare = checkpoint;
  for (const auto& [name, tensor] : checkpoint.tensors)
    bare.rename(name, name.substr(std::string("transformer.").size()));
  bare.tensors["h.0.attn.bias"] = {{1, 1, 5, 5}, std::vector<float>(25)};
  bare.tensors["h.0.attn.masked_bias"] = {{}, {-1e4f}};
  auto files = bare.open();
  expect_identical_models(load_hugging_face<Gpt2<float>>(files).model, model);

  Gpt2<>::Config untied = small_gpt2();
  untied.tied = false;
  names.insert("lm_head.weight (7, 4)");
  expect_saved(small_model<Gpt2<float>>(untied), {}, names);
}

// Wide enough that a matrix is read in several lots.
TEST(HuggingFace, MinGptHasTheSameMatricesTheOtherWayRound) {
  Gpt2<>::Config config = small_gpt2();
  config.block.width = 80;
  config.block.hidden = 320;
  config.tied = false;
  const auto model = small_model<Gpt2<float>>(config);
  Checkpoint checkpoint = checkpoint_of(model);
  auto files = checkpoint.open();
  expect_identical_models(load_hugging_face<Gpt2<float>>(files).model, model);

  for (auto& [name, tensor] : checkpoint.tensors) {
    if (tensor.shape.size() != 2 || name.find(".c_") == std::string::npos) continue;
    const std::vector<float> values = tensor.values;
    const auto in = static_cast<std::size_t>(tensor.shape[0]), out = static_cast<std::size_t>(tensor.shape[1]);
    for (std::size_t i = 0; i < in; ++i)
      for (std::size_t o = 0; o < out; ++o) tensor.values[o * in + i] = values[i * out + o];
    std::swap(tensor.shape[0], tensor.shape[1]);
  }
  checkpoint.config = {{"model_type", "gpt-mini"}, {"n_layer", 1},   {"n_head", 2}, {"n_embd", 80},
                       {"vocab_size", 7},          {"block_size", 5}};
  auto turned = checkpoint.open();
  expect_identical_models(load_hugging_face<Gpt2<float>>(turned).model, model);
}

TEST(HuggingFace, LlamaAndItsKin) {
  const auto names_of = [](bool biases, bool head) {
    std::set<std::string> names{"model.embed_tokens.weight (11, 8)", "model.norm.weight (8)"};
    if (head) names.insert("lm_head.weight (11, 8)");
    for (const char* layer : {"model.layers.0.", "model.layers.1."}) {
      const std::string at = layer;
      add_modules(names,
                  {{at + "input_layernorm", "8"},
                   {at + "self_attn.o_proj", "8, 8"},
                   {at + "post_attention_layernorm", "8"},
                   {at + "mlp.gate_proj", "12, 8"},
                   {at + "mlp.up_proj", "12, 8"},
                   {at + "mlp.down_proj", "8, 12"}},
                  "");
      add_modules(
          names,
          {{at + "self_attn.q_proj", "8, 8"}, {at + "self_attn.k_proj", "4, 8"}, {at + "self_attn.v_proj", "4, 8"}},
          biases ? "out" : "");
    }
    return names;
  };
  const PretrainedFacts facts{.bos = 1, .pad = 0, .eos = {2, 3}, .max_positions = 16};
  Llama<>::Config config = small_llama();
  const auto model = small_model<Llama<float>>(config);
  Checkpoint llama = expect_saved(model, facts, names_of(false, true));
  EXPECT_EQ(llama.config.at("model_type"), "llama");
  EXPECT_EQ(llama.config.at("eos_token_id"), nlohmann::json({2, 3}));
  EXPECT_FALSE(llama.config.at("tie_word_embeddings").get<bool>());
  llama.tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = {{1}, {1}};
  auto files = llama.open();
  expect_identical_models(load_hugging_face<Llama<float>>(files).model, model);

  config.tied = true;
  config.block.attention.window = 3;
  const Checkpoint mistral = expect_saved(small_model<Mistral<float>>(config), facts, names_of(false, false));
  EXPECT_EQ(mistral.config.at("model_type"), "mistral");
  EXPECT_EQ(mistral.config.at("sliding_window"), 3);

  config.block.attention.window = 0;
  config.block.attention.bias = true;
  config.block.attention.output_bias = false;
  config.each_layer.assign(2, config.block);
  config.each_layer[1].attention.window = 4;
  const Checkpoint qwen = expect_saved(small_model<Qwen2<float>>(config), facts, names_of(true, false));
  EXPECT_EQ(qwen.config.at("model_type"), "qwen2");
  EXPECT_EQ(qwen.config.at("layer_types"), nlohmann::json({"full_attention", "sliding_attention"}));

  // The older way to say it.
  Checkpoint older = qwen;
  older.config.erase("layer_types");
  const auto window_of = [&](std::size_t layer) {
    auto open = older.open();
    return load_hugging_face<Qwen2<float>>(open).model.decoder.blocks[layer].attention.window;
  };
  older.config["max_window_layers"] = 1;
  EXPECT_EQ(window_of(0), 0);
  EXPECT_EQ(window_of(1), 4);
  older.config["max_window_layers"] = 2;
  EXPECT_EQ(window_of(1), 0);
  older.config["max_window_layers"] = 0;
  EXPECT_EQ(window_of(0), 4);
  older.config["use_sliding_window"] = false;
  EXPECT_EQ(window_of(0), 0);
}

TEST(HuggingFace, Qwen3) {
  auto config = small_llama<Qwen3<>::Config>();
  config.layers = 1;
  config.tied = true;
  config.block.attention.head_width = 6;
  std::set<std::string> names;
  const std::string at = "model.layers.0.";
  add_modules(names,
              {{"model.embed_tokens", "11, 8"},
               {"model.norm", "8"},
               {at + "input_layernorm", "8"},
               {at + "self_attn.q_proj", "24, 8"},
               {at + "self_attn.k_proj", "12, 8"},
               {at + "self_attn.v_proj", "12, 8"},
               {at + "self_attn.o_proj", "8, 24"},
               {at + "self_attn.q_norm", "6"},
               {at + "self_attn.k_norm", "6"},
               {at + "post_attention_layernorm", "8"},
               {at + "mlp.gate_proj", "12, 8"},
               {at + "mlp.up_proj", "12, 8"},
               {at + "mlp.down_proj", "8, 12"}},
              "");
  expect_saved(small_model<Qwen3<float>>(config), {.max_positions = 16}, names);
}

TEST(HuggingFace, BertAndRoberta) {
  std::set<std::string> names;
  add_modules(names,
              {{"embeddings.word_embeddings", "9, 4"},
               {"embeddings.position_embeddings", "6, 4"},
               {"embeddings.token_type_embeddings", "2, 4"}},
              "");
  const std::string at = "encoder.layer.0.";
  add_modules(names,
              {{"embeddings.LayerNorm", "4"},
               {at + "attention.self.query", "4, 4"},
               {at + "attention.self.key", "4, 4"},
               {at + "attention.self.value", "4, 4"},
               {at + "attention.output.dense", "4, 4"},
               {at + "attention.output.LayerNorm", "4"},
               {at + "intermediate.dense", "10, 4"},
               {at + "output.dense", "4, 10"},
               {at + "output.LayerNorm", "4"}},
              "out");
  expect_saved(small_model<Bert<float>>(small_bert(false)), {.pad = 0}, names);
  add_modules(names, {{"pooler.dense", "4, 4"}}, "out");
  const auto model = small_model<Bert<float>>(small_bert());
  const Checkpoint checkpoint = expect_saved(model, {.pad = 0}, names);

  // As the first release: with a prefix, old names of norms, and heads that are not read.
  Checkpoint first = checkpoint;
  for (const auto& [name, tensor] : checkpoint.tensors) {
    std::string old = "bert." + name;
    if (const auto place = old.find("LayerNorm.weight"); place != std::string::npos)
      old.replace(place, 16, "LayerNorm.gamma");
    if (const auto place = old.find("LayerNorm.bias"); place != std::string::npos)
      old.replace(place, 14, "LayerNorm.beta");
    first.rename(name, old);
  }
  for (const char* name : {"cls.predictions.bias", "cls.predictions.transform.dense.weight",
                           "cls.seq_relationship.weight", "bert.embeddings.position_ids"})
    first.tensors[name] = {{1}, {0}};
  auto files = first.open();
  expect_identical_models(load_hugging_face<Bert<float>>(files).model, model);

  std::set<std::string> roberta = names;
  roberta.erase("embeddings.position_embeddings.weight (6, 4)");
  roberta.insert("embeddings.position_embeddings.weight (8, 4)");
  const Checkpoint other =
      expect_saved(small_model<Roberta<float>>(small_bert()), {.bos = 0, .pad = 1, .eos = {2}}, roberta);
  EXPECT_EQ(other.config.at("max_position_embeddings"), 8);
  EXPECT_EQ(other.config.at("pad_token_id"), 1);
}

TEST(HuggingFace, T5) {
  const auto names_of = [](bool gated) {
    std::set<std::string> names;
    add_modules(names, {{"shared", "40, 8"}, {"encoder.final_layer_norm", "8"}, {"decoder.final_layer_norm", "8"}}, "");
    const auto attention = [&](const std::string& at, const std::string& norm) {
      add_modules(names, {{at + "q", "6, 8"}, {at + "k", "6, 8"}, {at + "v", "6, 8"}, {at + "o", "8, 6"}, {norm, "8"}},
                  "");
    };
    const auto network = [&](const std::string& at) {
      add_modules(names, {{at + "DenseReluDense.wo", "8, 10"}, {at + "layer_norm", "8"}}, "");
      if (gated) add_modules(names, {{at + "DenseReluDense.wi_0", "10, 8"}, {at + "DenseReluDense.wi_1", "10, 8"}}, "");
      else add_modules(names, {{at + "DenseReluDense.wi", "10, 8"}}, "");
    };
    attention("encoder.block.0.layer.0.SelfAttention.", "encoder.block.0.layer.0.layer_norm");
    network("encoder.block.0.layer.1.");
    attention("decoder.block.0.layer.0.SelfAttention.", "decoder.block.0.layer.0.layer_norm");
    attention("decoder.block.0.layer.1.EncDecAttention.", "decoder.block.0.layer.1.layer_norm");
    network("decoder.block.0.layer.2.");
    for (const char* stack : {"encoder", "decoder"})
      names.insert(std::string(stack) + ".block.0.layer.0.SelfAttention.relative_attention_bias.weight (32, 2)");
    if (gated) names.insert("lm_head.weight (40, 8)");
    return names;
  };
  const PretrainedFacts facts{.pad = 0, .decoder_start = 0, .eos = {1}};
  const auto model = small_model<T5<float>>(small_t5<true>());
  Checkpoint checkpoint = expect_saved(model, facts, names_of(false));
  EXPECT_EQ(checkpoint.config.at("feed_forward_proj"), "relu");
  // Files repeat the tied table, and have a table that was never used.
  for (const char* name : {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"})
    checkpoint.tensors[name] = checkpoint.tensors.at("shared.weight");
  checkpoint.tensors["decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"] = {
      {32, 2}, std::vector<float>(64)};
  auto files = checkpoint.open();
  expect_identical_models(load_hugging_face<T5<float>>(files).model, model);

  const Checkpoint gated = expect_saved(small_model<T5v11<float>>(small_t5<false>()), facts, names_of(true));
  EXPECT_EQ(gated.config.at("feed_forward_proj"), "gated-gelu");
  EXPECT_EQ(gated.config.at("tie_word_embeddings"), false);
}

TEST(HuggingFace, BartAndMarian) {
  const auto names_of = [](bool marian) {
    std::set<std::string> names{"model.shared.weight (13, 8)", "final_logits_bias (1, 13)"};
    for (const std::string stack : {"model.encoder.", "model.decoder."}) {
      if (!marian) {
        names.insert(stack + "embed_positions.weight (8, 8)");
        add_modules(names, {{stack + "layernorm_embedding", "8"}}, "out");
      }
      const std::string at = stack + "layers.0.";
      for (const char* kind : {"self_attn", "encoder_attn"}) {
        if (stack == "model.encoder." && std::string(kind) == "encoder_attn") continue;
        for (const char* part : {".k_proj", ".v_proj", ".q_proj", ".out_proj"})
          add_modules(names, {{at + kind + part, "8, 8"}}, "out");
        add_modules(names, {{at + kind + "_layer_norm", "8"}}, "out");
      }
      add_modules(names, {{at + "fc1", "12, 8"}, {at + "fc2", "8, 12"}, {at + "final_layer_norm", "8"}}, "out");
    }
    return names;
  };
  const auto bart = small_model<Bart<float>>(small_bart<false>());
  Checkpoint checkpoint = expect_saved(bart, {.bos = 0, .pad = 1, .decoder_start = 2, .eos = {2}}, names_of(false));
  EXPECT_EQ(checkpoint.config.at("architectures").at(0), "BartForConditionalGeneration");
  checkpoint.tensors.at("final_logits_bias").values[5] = 0.5f;
  auto files = checkpoint.open();
  expect_contains(error_of([&] { load_hugging_face<Bart<float>>(files); }),
                  "tensor \"final_logits_bias\" is not all zero");

  const auto marian = small_model<Marian<float>>(small_bart<true>());
  Checkpoint other =
      expect_saved(marian, {.pad = 12, .decoder_start = 12, .eos = {0}, .max_positions = 6}, names_of(true));
  EXPECT_EQ(other.config.at("scale_embedding"), true);
  EXPECT_EQ(other.config.at("activation_function"), "swish");
  for (const char* stack : {"encoder", "decoder"})
    other.tensors[std::string("model.") + stack + ".embed_positions.weight"] = {{6, 8}, std::vector<float>(48)};
  auto open = other.open();
  expect_identical_models(load_hugging_face<Marian<float>>(open).model, marian);
}

TEST(HuggingFace, MarianAddsItsBiasToTheLogits) {
  auto model = small_model<Marian<float>>(small_bart<true>());
  const auto source = random_ids(Shape{2, 5}, 0, 13, 3), target = random_ids(Shape{2, 4}, 0, 13, 4);
  Context ctx;
  const Tensor<float, 3> with(model(ctx, {.source = source, .target = target}));
  // The same from a state, token by token.
  auto state = model.start(ctx, source);
  for (Index n = 0; n < 4; ++n) {
    const std::vector<Id> next{target(0, n), target(1, n)};
    const auto row = model.next_logits(ctx, {.ids = next, .counts = std::vector<Index>{1, 1}}, state);
    for (Index b = 0; b < 2; ++b) EXPECT_TRUE(identical(Tensor<float, 1>(row[b]), Tensor<float, 1>(with.view()[b][n])));
  }
  const Tensor<float, 1> bias = model.logit_bias;
  std::fill_n(model.logit_bias.data(), 13, 0.0f);
  const Tensor<float, 3> without(model(ctx, {.source = source, .target = target}));
  for (Index i = 0; i < with.size(); ++i) EXPECT_NEAR(with.data()[i], without.data()[i] + bias(i % 13), 1e-5);
  // Sines in the first half of a row, cosines in the second.
  const Tensor<float, 3> zero(Shape{1, 4, 8});
  const auto positions = model.position.embed(ctx, zero, {});
  EXPECT_NEAR(positions(0, 3, 1), std::sin(3 * std::pow(10000, -0.25)), 1e-6);
  EXPECT_NEAR(positions(0, 3, 5), std::cos(3 * std::pow(10000, -0.25)), 1e-6);
}

TEST(HuggingFace, Shards) {
  const auto model = small_model<Llama<float>>(small_llama());
  const Checkpoint whole = checkpoint_of(model);
  Checkpoint parts[2];
  nlohmann::json map = nlohmann::json::object();
  std::size_t i = 0;
  for (const auto& [name, tensor] : whole.tensors) {
    parts[i % 2].tensors[name] = tensor;
    map[name] = i % 2 == 0 ? "model-00001-of-00002.safetensors" : "model-00002-of-00002.safetensors";
    ++i;
  }
  const TemporaryFolder folder;
  const auto write = [&](const nlohmann::json& index) {
    write_file(folder / "model.safetensors.index.json", index.dump());
  };
  const auto refusal = [&] { return error_of([&] { load_hugging_face<Llama<float>>(folder / ""); }); };
  write_file(folder / "config.json", whole.config.dump());
  expect_contains(refusal(), "has neither model.safetensors nor model.safetensors.index.json");
  write({{"metadata", {{"total_size", 1}}}, {"weight_map", map}});
  expect_contains(refusal(), "model-00001-of-00002.safetensors: there is no such file");
  write_file(folder / "model-00001-of-00002.safetensors", parts[0].safetensors());
  write_file(folder / "model-00002-of-00002.safetensors", parts[1].safetensors());
  expect_identical_models(load_hugging_face<Llama<float>>(folder / "").model, model);

  nlohmann::json wrong = map;
  wrong["model.norm.weight"] = map.at("lm_head.weight") == map.at("model.norm.weight")
                                   ? map.at("model.embed_tokens.weight")
                                   : map.at("lm_head.weight");
  write({{"weight_map", wrong}});
  expect_contains(refusal(), "\"model.norm.weight\", which the index ");
  wrong = map;
  wrong["one.more"] = map.at("lm_head.weight");
  write({{"weight_map", wrong}});
  expect_contains(refusal(), "does not contain tensor \"one.more\", which the index places there");
  for (const char* name : {"../model.safetensors", "a/b", "..", "", "C:x"}) {
    wrong["one.more"] = name;
    write({{"weight_map", wrong}});
    expect_contains(refusal(), "which is not the name of a file");
  }
  wrong["one.more"] = 3;
  write({{"weight_map", wrong}});
  expect_contains(refusal(), "model.safetensors.index.json: weight_map: key \"one.more\" is 3, not a text");
  write({{"weight_map", 3}});
  expect_contains(refusal(), "key \"weight_map\" is 3, not an object");
  write(nlohmann::json::object());
  expect_contains(refusal(), "key \"weight_map\" is missing");
}

TEST(HuggingFace, SixteenBits) {
  auto model = small_model<Llama<float>>(small_llama());
  walk(
      [](const Leaf&, auto& x) {
        std::transform(x.data(), x.data() + x.size(), x.data(), [](float v) { return std::round(v * 32) / 32; });
      },
      model);
  for (const char* dtype : {"BF16", "F16"}) {
    Checkpoint checkpoint = checkpoint_of(model);
    for (auto& [name, tensor] : checkpoint.tensors) tensor.dtype = dtype;
    auto files = checkpoint.open();
    const auto loaded = load_hugging_face<Llama<float>>(files);
    if (std::string(dtype) == "F16")
      expect_identical_models(loaded.model, model);  // eight bits of a fraction would not do
    else EXPECT_NEAR(loaded.model.embedding.weight(1, 2), model.embedding.weight(1, 2), 0.02);
  }
  auto gpt2 = small_model<Gpt2<float>>(small_gpt2());  // fused and transposed
  walk(
      [](const Leaf&, auto& x) {
        std::transform(x.data(), x.data() + x.size(), x.data(), [](float v) { return std::round(v * 16) / 16; });
      },
      gpt2);
  Checkpoint checkpoint = checkpoint_of(gpt2);
  for (auto& [name, tensor] : checkpoint.tensors) tensor.dtype = "BF16";
  auto files = checkpoint.open();
  expect_identical_models(load_hugging_face<Gpt2<float>>(files).model, gpt2);
}

TEST(HuggingFace, TokensOfGenerationComeFirst) {
  const TemporaryFolder folder;
  save_hugging_face(folder / "x", small_model<Llama<float>>(small_llama()),
                    {.bos = 1, .pad = 0, .eos = {2}, .max_positions = 16});
  write_file(folder / "x/generation_config.json",
             R"({"eos_token_id": [2, 7], "temperature": 0.6, "pad_token_id": null})");
  const PretrainedFacts facts = load_hugging_face<Llama<float>>(folder / "x").facts;
  EXPECT_EQ(facts.eos, (std::vector<Id>{2, 7}));
  EXPECT_EQ(facts.bos, 1);
  EXPECT_EQ(facts.pad, 0);
  EXPECT_EQ(facts.max_positions, 16);
  write_file(folder / "x/generation_config.json", R"({"eos_token_id": "x"})");
  expect_contains(error_of([&] { load_hugging_face<Llama<float>>(folder / "x"); }),
                  "generation_config.json: key \"eos_token_id\" is or contains \"x\"");
}

TEST(HuggingFace, DoubleIsSavedAsDouble) {
  const auto model = small_model<Llama<double>>(small_llama());
  const TemporaryFolder folder;
  save_hugging_face(folder / "x", model, {.max_positions = 16});
  expect_identical_models(load_hugging_face<Llama<double>>(folder / "x").model, model);
}

TEST(HuggingFace, TiedHeads) {
  Llama<>::Config config = small_llama();
  config.tied = true;
  const auto tied = small_model<Llama<float>>(config);
  Checkpoint without = checkpoint_of(tied);
  EXPECT_FALSE(without.tensors.contains("lm_head.weight"));
  Checkpoint alone = without, both = without;
  alone.rename("model.embed_tokens.weight", "lm_head.weight");
  both.tensors["lm_head.weight"] = both.tensors.at("model.embed_tokens.weight");
  for (Checkpoint* checkpoint : {&without, &alone, &both}) {
    auto files = checkpoint->open();
    expect_identical_models(load_hugging_face<Llama<float>>(files).model, tied);
  }
  both.tensors.at("lm_head.weight").values[87] += 1;
  auto files = both.open();
  expect_contains(error_of([&] { load_hugging_face<Llama<float>>(files); }),
                  "memory/model.safetensors: contradiction: model.embed_tokens.weight and lm_head.weight are one "
                  "tensor, but differ");

  Checkpoint untied = checkpoint_of(small_model<Llama<float>>(small_llama()));
  untied.tensors.erase("lm_head.weight");
  auto open = untied.open();
  expect_contains(error_of([&] { load_hugging_face<Llama<float>>(open); }), "\n  missing: lm_head.weight (11, 8)");
}

TEST(HuggingFace, RotaryScalings) {
  Llama<>::Config config = small_llama();
  config.layers = 1;
  config.block.heads = 2;
  const std::vector<double> shorter{1, 1.5}, longer{2, 4};
  const std::vector<decltype(RotaryConfig::scaling)> scalings{std::monostate{},
                                                              LinearScaling{2},
                                                              DynamicNtkScaling{3, 16},
                                                              YarnScaling{4, 8, 30, 2, 1.5, false},
                                                              YarnScaling{2, 8},
                                                              LongScaling{shorter, longer, 4, 16, 1.25},
                                                              LongScaling{shorter, longer, 4, 16},
                                                              Llama3Scaling{4, 1, 3, 12}};
  for (const auto& scaling : scalings) {
    SCOPED_TRACE(scaling.index());
    config.position = {.base = 500, .scaling = scaling};
    const auto model = small_model<Llama<float>>(config);
    Checkpoint checkpoint = checkpoint_of(model);
    const auto numbers = [&] {
      auto files = checkpoint.open();
      const auto loaded = load_hugging_face<Llama<float>>(files);
      EXPECT_EQ(loaded.model.position.config->scaling.index(), scaling.index());
      return loaded.model.config;
    };
    EXPECT_EQ(numbers(), model.config);
    // Everything in rope_parameters, as newer versions have it.
    nlohmann::json rope = checkpoint.config.at("rope_scaling");
    if (rope.is_null()) rope = {{"rope_type", "default"}};
    rope["rope_theta"] = 500;
    checkpoint.config.erase("rope_scaling");
    checkpoint.config.erase("rope_theta");
    checkpoint.config["rope_parameters"] = rope;
    EXPECT_EQ(numbers(), model.config);
  }
}

// All that loads any checkpoint follows from one list.
static_assert(std::is_same_v<
              decltype(AnyPretrained<double>::model),
              std::variant<Gpt2<double>, Llama<double>, Qwen3<double>, Bert<double>, Roberta<double>, T5<double>,
                           T5v11<double>, Bart<double>, Marian<double>, Gemma2<double>, Phi2<double>, Bloom<double>>>);

TEST(HuggingFace, OtherFamilies) {
  Checkpoint checkpoint = checkpoint_of(small_model<Llama<float>>(small_llama()));
  CheckpointFiles files = checkpoint.open();
  EXPECT_EQ(error_of([&] { load_hugging_face<Gpt2<float>>(files); }),
            "[pretrained] memory/config.json: key \"model_type\" is \"llama\": this checkpoint is of another type of "
            "model");
  checkpoint.config["model_type"] = "bloom";
  CheckpointFiles bloom = checkpoint.open();
  EXPECT_EQ(
      error_of([&] { load_pretrained<float>(bloom); }),
      "[pretrained] memory/config.json: key \"model_type\" is \"bloom\", but only gpt2, llama, mistral, qwen2, qwen3, "
      "bert, roberta, xlm-roberta, t5, mt5, bart, marian, gpt-nano, gpt-micro, gpt-mini, gopher-44m, openai-gpt, "
      "gpt2-medium, gpt2-large, gpt2-xl are supported");
}

TEST(HuggingFace, WhatTheFormatCannotSayIsNotSaved) {
  const TemporaryFolder folder;
  const auto refusal = [&](const Llama<>::Config& config, const PretrainedFacts& facts = {.max_positions = 16}) {
    const std::string text = error_of([&] { save_hugging_face(folder / "x", Llama<float>(config), facts); });
    EXPECT_FALSE(std::filesystem::exists(folder / "x"));
    return text;
  };
  Llama<>::Config config = small_llama();
  config.logit_cap = 3;
  expect_contains(refusal(config), "config.json: this model has parts or numbers that the format cannot say");
  config = small_llama();
  config.embedding_norm = true;
  expect_contains(refusal(config), "model.safetensors: this format has no tensor for embedding_norm.weight");
  config = small_llama();
  config.block.attention.scale = 0.3;
  expect_contains(refusal(config), "cannot say");
  config = small_llama();
  config.block.feed_forward.bias = true;
  config.block.attention.window = 3;  // Mistral has a window and no biases
  expect_contains(refusal(config), "does not fit the config");
  config = small_llama();
  config.each_layer.assign(2, config.block);
  config.each_layer[1].residual.norm.epsilon = 1e-6;
  expect_contains(refusal(config), "cannot say");
  config = small_llama();
  config.position.scaling = NtkScaling{2};
  config.block.heads = 2;
  expect_contains(refusal(config), "NTK-aware scaling cannot be saved");
  expect_contains(refusal(small_llama(), {}), "facts.max_positions must say");
}

}  // namespace eigenformer::test
