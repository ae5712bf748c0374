// Checkpoints that are wrong: every one is an Error that says where and why, and nothing but Error is ever thrown.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "eigenformer/core/random.hpp"
#include "eigenformer/pretrained/hugging_face.hpp"
#include "pretrained/stored.hpp"
#include "support/error.hpp"
#include "support/files.hpp"

namespace eigenformer::test {
namespace {

std::string refusal_of(const Checkpoint& checkpoint, const PretrainedOptions& options = {}) {
  auto files = checkpoint.open();
  return error_of([&] { load_pretrained<float>(files, options); });
}

/// A tiny one of each family.
std::vector<Checkpoint> small_checkpoints() {
  Llama<>::Config llama = small_llama(), qwen = small_llama();
  llama.layers = qwen.layers = 1;
  qwen.block.heads = 2;
  qwen.block.attention.bias = true;
  qwen.block.attention.output_bias = false;
  qwen.position.scaling = YarnScaling{2, 8};
  std::vector<Checkpoint> all;
  all.push_back(checkpoint_of(small_model<Llama<float>>(llama)));
  all.push_back(checkpoint_of(small_model<Qwen2<float>>(qwen)));
  all.push_back(checkpoint_of(small_model<Gpt2<float>>(small_gpt2())));
  all.push_back(checkpoint_of(small_model<Bert<float>>(small_bert())));
  all.push_back(checkpoint_of(small_model<T5<float>>(small_t5<true>())));
  all.push_back(checkpoint_of(small_model<Bart<float>>(small_bart<false>())));
  all.push_back(checkpoint_of(small_model<Marian<float>>(small_bart<true>())));
  return all;
}

/// Whether it loads; anything but an Error fails the test.
bool loads(const std::string& config, const std::string& tensors) {
  try {
    CheckpointFiles files(config, std::make_unique<std::istringstream>(tensors));
    load_pretrained<float>(files);
    return true;
  } catch (const Error& error) {
    EXPECT_TRUE(std::string(error.what()).find("memory/") != std::string::npos ||
                std::string(error.what()).find("facts") != std::string::npos)
        << error.what();
  } catch (const std::exception& other) {
    ADD_FAILURE() << other.what() << "\n" << config;
  }
  return false;
}

/// A config's key, what it is set to, and what is said about it.
struct Mutation {
  std::string key;
  nlohmann::json value;
  std::string reason;
};

void expect_refused(const Checkpoint& good, const std::vector<Mutation>& mutations) {
  for (const auto& [key, value, reason] : mutations) {
    Checkpoint bad = good;
    if (value.is_discarded()) bad.config.erase(key);
    else bad.config[key] = value;
    const std::string error = refusal_of(bad);
    EXPECT_EQ(error.find("[pretrained] memory/"), 0u) << key << ": " << error;
    expect_contains(error, reason);
  }
}
const nlohmann::json missing(nlohmann::json::value_t::discarded);

}  // namespace

TEST(BadCheckpoint, ConfigsOfLlama) {
  const std::string file = "memory/config.json: ";
  const Checkpoint good = checkpoint_of(small_model<Llama<float>>(small_llama()));
  expect_refused(
      good,
      {
          {"hidden_act", "gelu", file + "key \"hidden_act\" is \"gelu\", but only \"silu\" is supported"},
          {"hidden_act", 3, "key \"hidden_act\" is 3"},
          {"hidden_size", missing, file + "key \"hidden_size\" is missing"},
          {"hidden_size", "8", "key \"hidden_size\" is or contains \"8\", which is not an integer"},
          {"hidden_size", 8.0, "key \"hidden_size\" is or contains 8.0, which is not an integer"},
          {"hidden_size", -8, "key \"hidden_size\" is -8, which is not between 1 and 2147483647"},
          {"hidden_size", 18446744073709551615u, "key \"hidden_size\" is 18446744073709551615, which is not between"},
          {"hidden_size", 2147483647, "key \"hidden_size\" is 2147483647, but no tensor has an extent of more than 12"},
          {"hidden_size", nlohmann::json::array({8}), "key \"hidden_size\" is or contains a list"},
          {"hidden_size", 10,
           "memory/config.json: does not describe a model: [attention] 4 heads do not divide model width 10"},
          {"intermediate_size", 11, "\n  shape: model.layers.0.mlp.gate_proj.weight is (12, 8), not (11, 8)"},
          {"num_hidden_layers", 1000000000, "key \"num_hidden_layers\" is 1000000000, but there are only 21 tensors"},
          {"num_hidden_layers", 1, "\n  extra: model.layers.1.input_layernorm.weight (8)"},
          {"num_hidden_layers", 3, "\n  missing: model.layers.2.input_layernorm.weight (8)"},
          {"num_key_value_heads", 3, "[attention] 3 key-value heads do not divide 4 query heads"},
          {"num_attention_heads", 0, "key \"num_attention_heads\" is 0"},
          {"head_dim", 5, "does not describe a model: [rotary]"},
          {"vocab_size", 12, "\n  shape: lm_head.weight is (11, 8), not (12, 8)"},
          {"rms_norm_eps", 0, "key \"rms_norm_eps\" is 0, which is not positive"},
          {"rms_norm_eps", "1e-5", "key \"rms_norm_eps\" is or contains \"1e-5\", which is not a number"},
          {"max_position_embeddings", missing, "key \"max_position_embeddings\" is missing"},
          {"attention_bias", true, "\n  missing: model.layers.0.self_attn.q_proj.bias (8)"},
          {"attention_bias", 1, "key \"attention_bias\" is 1, not true or false"},
          {"mlp_bias", true, "\n  missing: model.layers.0.mlp.gate_proj.bias (12)"},
          {"tie_word_embeddings", "no", "key \"tie_word_embeddings\" is \"no\", not true or false"},
          {"is_decoder", 1, "key \"is_decoder\" is 1, not true or false"},
          {"use_mrope", true, "key \"use_mrope\" is true, but only false is supported"},
          {"model_type", missing, "key \"model_type\" is missing"},
          {"model_type", "gptj", "key \"model_type\" is \"gptj\", but only gpt2"},
          {"model_type", nullptr, "key \"model_type\" is missing"},
          {"partial_rotary_factor", 0.5, "key \"partial_rotary_factor\" is 0.5, but only 1.0 is supported"},
          {"rope_theta", -1, "key \"rope_theta\" is -1, which is not positive"},
          {"rope_scaling", 2, "key \"rope_scaling\" is 2, not an object"},
          {"rope_scaling", {{"factor", 2}}, "memory/config.json: rope_scaling: key \"type\" is missing"},
          {"rope_scaling", {{"type", "linear"}}, "rope_scaling: key \"factor\" is missing"},
          {"rope_scaling", {{"type", "mrope"}, {"factor", 2}}, "rope_scaling: key \"type\" is \"mrope\", but only"},
          {"rope_scaling",
           {{"type", "linear"}, {"rope_type", "yarn"}, {"factor", 2}},
           "rope_scaling: key \"type\" is \"linear\", but rope_type is \"yarn\""},
          {"rope_scaling",
           {{"type", "linear"}, {"factor", 2}, {"mscale", 1}},
           "rope_scaling: key \"mscale\" is unknown"},
          {"rope_scaling",
           {{"type", "dynamic"}, {"factor", 2}, {"original_max_position_embeddings", 5}},
           "is 5, but max_position_embeddings 16"},
          {"rope_scaling", {{"type", "dynamic"}, {"factor", 2}}, "does not describe a model: [rotary]"},  // heads of 2
          {"rope_scaling",
           {{"type", "longrope"}, {"short_factor", {1}}, {"long_factor", {1, 2}}},
           "[rotary] 2 factors do not fit 1 pairs"},
          {"rope_scaling",
           {{"rope_type", "llama3"}, {"factor", 8}, {"low_freq_factor", 1}, {"high_freq_factor", 4}},
           "key \"original_max_position_embeddings\" is missing"},
          {"eos_token_id", -5, "key \"eos_token_id\" is -5"},
          {"eos_token_id", {1, "x"}, "key \"eos_token_id\" is or contains \"x\""},
          {"quantization_config",
           {{"bits", 4}},
           "key \"quantization_config\" is unknown, with the value an object: if it does not change the mathematics, "
           "list it in "
           "options.ignored_keys"},
      });

  Checkpoint unknown = good;
  unknown.config["new_thing"] = 1;
  auto files = unknown.open();
  EXPECT_NO_THROW(load_pretrained<float>(files, {.ignored_keys = {"new_thing"}}));
  expect_contains(error_of([&] {
                    auto other = good.open();
                    load_hugging_face<Gpt2<float>>(other);
                  }),
                  "key \"model_type\" is \"llama\": this checkpoint is of another type of model");
}

TEST(BadCheckpoint, ConfigsOfOthers) {
  expect_refused(checkpoint_of(small_model<Gpt2<float>>(small_gpt2())),
                 {
                     {"activation_function", "relu",
                      "key \"activation_function\" is \"relu\", but only \"gelu_new\" is supported"},
                     {"scale_attn_weights", false, "key \"scale_attn_weights\" is false"},
                     {"scale_attn_by_inverse_layer_idx", true, "key \"scale_attn_by_inverse_layer_idx\" is true"},
                     {"resid_pdrop", 1.5, "key \"resid_pdrop\" is 1.5, which is not in [0, 1)"},
                     {"n_positions", 6, "shape: transformer.wpe.weight is (5, 4), not (6, 4)"},
                     {"add_cross_attention", true, "key \"add_cross_attention\" is true"},
                 });
  expect_refused(checkpoint_of(small_model<Bert<float>>(small_bert())),
                 {
                     {"hidden_act", "relu", "key \"hidden_act\" is \"relu\""},
                     {"position_embedding_type", "relative_key", "key \"position_embedding_type\" is \"relative_key\""},
                     {"is_decoder", true, "key \"is_decoder\" is true"},
                     {"type_vocab_size", 3, "shape: embeddings.token_type_embeddings.weight is (2, 4), not (3, 4)"},
                 });
  expect_refused(
      checkpoint_of(small_model<Roberta<float>>(small_bert())),
      {
          {"pad_token_id", 0, "key \"pad_token_id\" is 0, but only 1 is supported"},
          {"max_position_embeddings", 2, "key \"max_position_embeddings\" is 2, but the first 2 rows are no positions"},
      });
  expect_refused(checkpoint_of(small_model<T5<float>>(small_t5<true>())),
                 {
                     {"feed_forward_proj", "gated-silu",
                      "key \"feed_forward_proj\" is \"gated-silu\", but only \"gated-gelu\" is supported"},
                     {"relative_attention_num_buckets", 64,
                      "key \"relative_attention_num_buckets\" is 64, but only 32 is supported"},
                     {"relative_attention_max_distance", 64, "key \"relative_attention_max_distance\" is 64"},
                     {"is_encoder_decoder", false, "key \"is_encoder_decoder\" is false, but only true is supported"},
                     {"tie_word_embeddings", false, "missing: lm_head.weight (40, 8)"},
                     {"d_kv", 4, "shape: encoder.block.0.layer.0.SelfAttention.q.weight is (6, 8), not (8, 8)"},
                 });
  expect_refused(checkpoint_of(small_model<Bart<float>>(small_bart<false>())),
                 {
                     {"activation_function", "relu", "key \"activation_function\" is \"relu\""},
                     {"normalize_before", true, "key \"normalize_before\" is true"},
                     {"decoder_ffn_dim", 11, "key \"decoder_ffn_dim\" is 11, but encoder_ffn_dim is 12"},
                     {"tie_word_embeddings", false, "key \"tie_word_embeddings\" is false"},
                 });
  expect_refused(checkpoint_of(small_model<Marian<float>>(small_bart<true>())),
                 {
                     {"static_position_embeddings", false, "key \"static_position_embeddings\" is false"},
                     {"decoder_vocab_size", 14, "key \"decoder_vocab_size\" is 14, but only 13 is supported"},
                     {"share_encoder_decoder_embeddings", false, "key \"share_encoder_decoder_embeddings\" is false"},
                 });
}

TEST(BadCheckpoint, TextsThatAreNoConfig) {
  const std::string tensors = checkpoint_of(small_model<Llama<float>>(small_llama())).safetensors();
  const auto refusal = [&](const std::string& text) {
    return error_of([&] {
      CheckpointFiles files(text, std::make_unique<std::istringstream>(tensors));
      load_pretrained<float>(files);
    });
  };
  EXPECT_EQ(refusal(""), "[pretrained] memory/config.json: is not valid JSON");
  EXPECT_EQ(refusal("{\"a\": 1"), "[pretrained] memory/config.json: is not valid JSON");
  EXPECT_EQ(refusal("{\"a\": 1e999}"), "[pretrained] memory/config.json: is not valid JSON");
  EXPECT_EQ(refusal("[1]"), "[pretrained] memory/config.json: is not a JSON object");
  EXPECT_EQ(refusal("{\"a\": 1, \"a\": 2}"), "[pretrained] memory/config.json: has the key \"a\" twice");
  EXPECT_EQ(refusal("{\"a\": {\"b\": [{\"c\": 1}, {\"c\": 1}]}, \"d\": {\"b\": 1, \"b\": 2}}"),
            "[pretrained] memory/config.json: has the key \"b\" twice");
  EXPECT_EQ(refusal(std::string("{}\0", 3)), "[pretrained] memory/config.json: contains a NUL byte");
  EXPECT_EQ(refusal("{\"a\": " + std::string(1000000, '[')),
            "[pretrained] memory/config.json: is nested more than 16 deep");
  const TemporaryFolder folder;
  expect_contains(error_of([&] { load_pretrained<float>(folder / "none"); }), "none: there is no such file or folder");
  write_file(folder / "x.txt", "");
  expect_contains(
      error_of([&] { load_pretrained<float>(folder / "x.txt"); }),
      "x.txt: is neither a folder nor a packed file (.safetensors) nor a GGUF file (.gguf) nor one of llama2.c (.bin)");
}

TEST(BadCheckpoint, Tensors) {
  const Checkpoint good = checkpoint_of(small_model<Llama<float>>(small_llama()));
  Checkpoint bad = good;
  bad.tensors.erase("model.layers.1.mlp.up_proj.weight");
  bad.tensors.at("model.norm.weight") = {{2, 4}, std::vector<float>(8)};
  bad.tensors["score.weight"] = {{2, 8}, std::vector<float>(16)};
  EXPECT_EQ(refusal_of(bad),
            "[pretrained] memory/model.safetensors does not fit the config:"
            "\n  missing: model.layers.1.mlp.up_proj.weight (12, 8)"
            "\n  shape: model.norm.weight is (2, 4), not (8)"
            "\n  extra: score.weight (2, 8)");
  Checkpoint extra = good;
  extra.tensors["score.weight"] = {{2, 8}, std::vector<float>(16)};
  auto files = extra.open();
  EXPECT_NO_THROW(load_pretrained<float>(files, {.allow_extra = true}));

  Checkpoint many = good;
  for (int i = 0; i < 12; ++i) many.tensors["x" + std::to_string(i)] = {{1}, {0}};
  const std::string told = refusal_of(many);
  expect_contains(told, "\n  extra: x7 (1)\n  extra: … and 2 more");

  // A fused matrix is complained about once.
  Checkpoint gpt2 = checkpoint_of(small_model<Gpt2<float>>(small_gpt2()));
  gpt2.tensors.at("transformer.h.0.attn.c_attn.weight").shape = {12, 4};
  gpt2.tensors.erase("transformer.h.0.attn.c_attn.bias");
  EXPECT_EQ(refusal_of(gpt2),
            "[pretrained] memory/model.safetensors does not fit the config:"
            "\n  shape: transformer.h.0.attn.c_attn.weight is (12, 4), not (4, 12)"
            "\n  missing: transformer.h.0.attn.c_attn.bias (12)");

  // Integers are no weights, and a type that we do not know is one only if it is asked for.
  std::string bytes = good.safetensors();
  const auto change = [&](const std::string& from, const std::string& to) {
    bytes = good.safetensors();
    const std::size_t end = bytes.find("}}") + 2;
    std::string header = bytes.substr(8, end - 8);
    const std::size_t place = header.find(from, header.find("model.norm.weight"));
    ASSERT_NE(place, std::string::npos);
    header.replace(place, from.size(), to);
    bytes = safetensors_bytes(header, bytes.substr(end));
  };
  const auto refusal = [&] {
    return error_of([&] {
      CheckpointFiles open(good.config.dump(), std::make_unique<std::istringstream>(bytes));
      load_pretrained<float>(open);
    });
  };
  change("\"F32\"", "\"I32\"");
  expect_contains(refusal(), "is I32, which cannot be read as numbers");
  change("\"F32\",\"shape\":[8]", "\"F8_E4M3\",\"shape\":[32]");  // as many bytes
  expect_contains(refusal(), "is F8_E4M3, which cannot be read as numbers");
  change("\"F32\"", "\"F33\"");
  expect_contains(refusal(), "is of the unknown dtype \"F33\"");
}

// Header lengths that are not to be trusted, files that are cut off or too long, padding; data that is not aligned.
TEST(BadCheckpoint, Files) {
  const auto model = small_model<Llama<float>>(small_llama());
  const Checkpoint good = checkpoint_of(model);
  const std::string config = good.config.dump(), bytes = good.safetensors();
  const auto refusal = [&](const std::string& tensors) {
    return error_of([&] {
      CheckpointFiles files(config, std::make_unique<std::istringstream>(tensors));
      load_pretrained<float>(files);
    });
  };
  const auto with_length = [&](std::uint64_t length) { return bytes_of(length) + bytes.substr(8); };
  const std::string file = "[safetensors] memory/model.safetensors: ";
  EXPECT_EQ(refusal(with_length(~std::uint64_t{0})).find(file + "the header would be 18446744073709551615 bytes long"),
            0u);
  EXPECT_EQ(refusal(with_length(100'000'001))
                .find(file + "the header would be 100000001 bytes long, more than the format's limit"),
            0u);
  EXPECT_EQ(refusal(with_length(bytes.size())).find(file + "the header would be"), 0u);
  EXPECT_EQ(refusal(bytes.substr(0, 5)).find(file + "the file has 5 bytes"), 0u);
  EXPECT_EQ(refusal(bytes.substr(0, bytes.size() - 1)).find(file + "tensor "), 0u);
  EXPECT_EQ(refusal(bytes + "x").find(file + "the tensors end at"), 0u);
  const std::size_t header = bytes.find("}}") + 2;
  const auto padded = [&](char by, std::size_t count) {
    return safetensors_bytes(bytes.substr(8, header - 8) + std::string(count, by), bytes.substr(header));
  };
  EXPECT_EQ(refusal(padded('\0', 3)).find(file + "the header contains a NUL byte"), 0u);
  for (std::size_t count = 0; count < 4; ++count) {
    CheckpointFiles files(config, std::make_unique<std::istringstream>(padded(' ', count)));
    expect_identical_models(load_hugging_face<Llama<float>>(files).model, model);
  }
}

TEST(BadCheckpoint, Llama2c) {
  const auto number = [](std::int32_t n) { return bytes_of(n); };
  // width 4, hidden 3, 1 layer, 2 heads, 1 key-value head, vocabulary 5, longest 2
  const auto file_of = [&](std::int32_t vocabulary, std::size_t numbers) {
    std::string bytes = number(4) + number(3) + number(1) + number(2) + number(1) + number(vocabulary) + number(2);
    for (std::size_t i = 0; i < numbers; ++i) bytes += bytes_of(static_cast<float>(i));
    return bytes;
  };
  constexpr std::size_t tied = 5 * 4 + 2 * 4 + (16 + 8 + 8 + 16) + 3 * 12 + 4 + 2 * 2;
  const auto load_bytes = [](const std::string& bytes) {
    std::istringstream stream(bytes);
    return load_llama2c<float>(stream, "x.bin").model;
  };
  const auto model = load_bytes(file_of(5, tied));
  EXPECT_FALSE(model.head.has_value());
  EXPECT_EQ(model.embedding.weight(4, 3), 19);
  EXPECT_EQ(model.decoder.blocks[0].attention_residual.norm.weight(0), 20);
  EXPECT_EQ(model.decoder.blocks[0].attention.query.weight(0, 0), 24);
  EXPECT_EQ(model.decoder.blocks[0].attention.key.weight(0, 0), 40);
  EXPECT_EQ(model.decoder.blocks[0].attention.output.weight(3, 3), 71);
  EXPECT_EQ(model.decoder.blocks[0].feed_forward_residual.norm.weight(0), 72);
  EXPECT_EQ(model.decoder.blocks[0].feed_forward.gate.weight(0, 0), 76);
  EXPECT_EQ(model.decoder.blocks[0].feed_forward.down.weight(3, 2), 99);
  EXPECT_EQ(model.decoder.blocks[0].feed_forward.up.weight(2, 3), 111);
  EXPECT_EQ(model.decoder.norm->weight(3), 115);
  const auto untied = load_bytes(file_of(-5, tied + 20));
  ASSERT_TRUE(untied.head.has_value());
  EXPECT_EQ(untied.head->weight(0, 0), 120);

  const auto refusal = [&](const std::string& bytes) { return error_of([&] { load_bytes(bytes); }); };
  EXPECT_EQ(refusal(""), "[llama2c] x.bin: the file has 0 bytes, which is no header of 28 and numbers of 4");
  EXPECT_EQ(refusal(file_of(5, tied - 1)), "[llama2c] x.bin: is too short for rotary positions of 1 × (2, 2) numbers");
  EXPECT_EQ(refusal(file_of(5, tied + 1)), "[llama2c] x.bin: is longer than its header says, by 1 numbers");
  expect_contains(refusal(file_of(5, tied) + "x"), "which is no header of 28 and numbers of 4");
  expect_contains(refusal(file_of(0, tied)), "vocabulary 0 is invalid: must be above 0");
  expect_contains(refusal(file_of(std::numeric_limits<std::int32_t>::min(), tied)),
                  "is too short for the embedding of 1 × (2147483648, 4) numbers");
  const std::string good = file_of(5, tied);
  for (std::size_t field = 0; field < 7; ++field)
    for (const std::int32_t value : {-1, 0, 1, 3, 7, 65536, 2147483647, -2147483647}) {
      std::string bad = good;
      bad.replace(4 * field, 4, number(value));
      if (bad != good && !(field == 4 && value == 1)) expect_contains(refusal(bad), "[llama2c] x.bin: ");
    }
  for (std::size_t size = 0; size < good.size(); size += 3)
    expect_contains(refusal(good.substr(0, size)), "[llama2c] x.bin: ");
}

TEST(BadCheckpoint, EveryKeyWithEveryKindOfValue) {
  const std::vector<nlohmann::json> values{missing,
                                           nullptr,
                                           -1,
                                           0,
                                           1,
                                           3,
                                           2147483647,
                                           18446744073709551615u,
                                           std::int64_t{-9223372036854775807} - 1,
                                           0.5,
                                           1e300,
                                           -1e-300,
                                           "x",
                                           "",
                                           true,
                                           false,
                                           nlohmann::json::array(),
                                           nlohmann::json::object(),
                                           {1, 2},
                                           {{"factor", 2}}};
  for (const Checkpoint& good : small_checkpoints()) {
    const std::string tensors = good.safetensors();
    EXPECT_TRUE(loads(good.config.dump(), tensors));
    Checkpoint changed = good;
    for (const auto& [key, value] : good.config.items()) {
      nlohmann::json& object = changed.config;
      const nlohmann::json before = object.at(key);
      for (const auto& each : values) {
        if (each.is_discarded()) object.erase(key);
        else object[key] = each;
        loads(object.dump(), tensors);
        object[key] = before;
      }
      if (!value.is_object()) continue;
      for (const auto& [inner, ignored] : value.items()) {
        for (const auto& each : values) {
          object[key] = before;
          if (each.is_discarded()) object[key].erase(inner);
          else object[key][inner] = each;
          loads(object.dump(), tensors);
        }
        object[key] = before;
      }
    }
  }
}

TEST(BadCheckpoint, RandomBytes) {
  RandomSequence random(5);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random.below(static_cast<Index>(n))); };
  for (const Checkpoint& good : small_checkpoints()) {
    const std::string config = good.config.dump(), tensors = good.safetensors();
    const std::size_t header = tensors.find("}}") + 2;
    const auto mutate = [&](std::string text, std::size_t first, std::size_t last) {
      for (std::size_t changes = 1 + below(3); changes > 0; --changes) {
        const std::size_t at = first + below(last - first);
        switch (below(4)) {
          case 0: text[at] = static_cast<char>(below(256)); break;
          case 1: text[at] = static_cast<char>(text[at] ^ 1 << below(8)); break;
          case 2: text[at] = "0123456789{}[],:\"-"[below(18)]; break;
          default: text = text.substr(0, first) + text.substr(first + below(3)); break;
        }
      }
      return below(8) == 0 ? text.substr(0, below(text.size() + 1)) : text;
    };
    for (int i = 0; i < 400; ++i) {
      loads(mutate(config, 0, config.size() - 8), tensors);
      loads(config, mutate(tensors, 0, header - 8));
    }
  }
}

}  // namespace eigenformer::test
