// A folder of transformers as the GGUF file that llama.cpp's converter makes of it (convert_hf_to_gguf.py and
// tensor_mapping.py there).
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numbers>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "eigenformer/io/gguf.hpp"
#include "pretrained/stored.hpp"
#include "support/gguf.hpp"

namespace eigenformer::test {

using Replacements = std::vector<std::pair<std::string, std::string>>;

/// Everything that a name contains, replaced in order; empty if it begins with what is replaced by "-".
inline std::string replaced(std::string name, const Replacements& replacements) {
  for (const auto& [from, to] : replacements)
    if (const std::size_t at = name.find(from); at != std::string::npos) {
      if (to == "-") return {};
      name.replace(at, from.size(), to);
    }
  return name;
}

inline const Replacements gguf_llama_names{{"model.embed_tokens.", "token_embd."},
                                           {"model.norm.", "output_norm."},
                                           {"lm_head.", "output."},
                                           {"model.layers.", "blk."},
                                           {"self_attn.q_proj", "attn_q"},
                                           {"self_attn.k_proj", "attn_k"},
                                           {"self_attn.v_proj", "attn_v"},
                                           {"self_attn.o_proj", "attn_output"},
                                           {"self_attn.q_norm", "attn_q_norm"},
                                           {"self_attn.k_norm", "attn_k_norm"},
                                           {"input_layernorm", "attn_norm"},
                                           {"post_attention_layernorm", "ffn_norm"},
                                           {"mlp.gate_proj", "ffn_gate"},
                                           {"mlp.up_proj", "ffn_up"},
                                           {"mlp.down_proj", "ffn_down"}};
inline const Replacements gguf_gpt2_names{{"transformer.wte.", "token_embd."},
                                          {"transformer.wpe.", "position_embd."},
                                          {"transformer.ln_f.", "output_norm."},
                                          {"lm_head.", "output."},
                                          {"transformer.h.", "blk."},
                                          {"ln_1", "attn_norm"},
                                          {"attn.c_attn", "attn_qkv"},
                                          {"attn.c_proj", "attn_output"},
                                          {"ln_2", "ffn_norm"},
                                          {"mlp.c_fc", "ffn_up"},
                                          {"mlp.c_proj", "ffn_down"}};
inline const Replacements gguf_bert_names{{"roberta.", ""},
                                          {"bert.", ""},
                                          {"pooler.", "-"},
                                          {"embeddings.word_embeddings", "token_embd"},
                                          {"embeddings.position_embeddings", "position_embd"},
                                          {"embeddings.token_type_embeddings", "token_types"},
                                          {"embeddings.LayerNorm", "token_embd_norm"},
                                          {"encoder.layer.", "blk."},
                                          {"attention.self.query", "attn_q"},
                                          {"attention.self.key", "attn_k"},
                                          {"attention.self.value", "attn_v"},
                                          {"attention.output.dense", "attn_output"},
                                          {"attention.output.LayerNorm", "attn_output_norm"},
                                          {"intermediate.dense", "ffn_up"},
                                          {"output.dense", "ffn_down"},
                                          {"output.LayerNorm", "layer_output_norm"}};
inline const Replacements gguf_t5_names{{"shared.", "token_embd."},
                                        {"lm_head.", "output."},
                                        {"encoder.final_layer_norm", "enc.output_norm"},
                                        {"decoder.final_layer_norm", "dec.output_norm"},
                                        {"encoder.block.", "enc.blk."},
                                        {"decoder.block.", "dec.blk."},
                                        {"layer.0.SelfAttention.relative_attention_bias", "attn_rel_b"},
                                        {"layer.0.SelfAttention.", "attn_"},
                                        {"layer.0.layer_norm", "attn_norm"},
                                        {"layer.1.EncDecAttention.", "cross_attn_"},
                                        {"layer.2.layer_norm", "ffn_norm"},
                                        {"layer.1.DenseReluDense.", "ffn_"},
                                        {"layer.2.DenseReluDense.", "ffn_"},
                                        {"ffn_wi_0", "ffn_gate"},
                                        {"ffn_wi_1", "ffn_up"},
                                        {"ffn_wi", "ffn_up"},
                                        {"ffn_wo", "ffn_down"}};

inline const Replacements gguf_gemma2_names = [] {
  Replacements names{{"pre_feedforward_layernorm", "ffn_norm"},
                     {"post_attention_layernorm", "post_attention_norm"},
                     {"post_feedforward_layernorm", "post_ffw_norm"}};
  names.insert(names.end(), gguf_llama_names.begin(), gguf_llama_names.end());
  return names;
}();
inline const Replacements gguf_phi2_names = [] {
  Replacements names{{"model.final_layernorm.", "output_norm."},
                     {"self_attn.dense", "attn_output"},
                     {"mlp.fc1", "ffn_up"},
                     {"mlp.fc2", "ffn_down"}};
  names.insert(names.end(), gguf_llama_names.begin(), gguf_llama_names.end());
  return names;
}();
inline const Replacements gguf_bloom_names{{"transformer.word_embeddings.", "token_embd."},
                                           {"transformer.word_embeddings_layernorm.", "token_embd_norm."},
                                           {"transformer.ln_f.", "output_norm."},
                                           {"transformer.h.", "blk."},
                                           {"input_layernorm", "attn_norm"},
                                           {"post_attention_layernorm", "ffn_norm"},
                                           {"self_attention.query_key_value", "attn_qkv"},
                                           {"self_attention.dense", "attn_output"},
                                           {"mlp.dense_h_to_4h", "ffn_up"},
                                           {"mlp.dense_4h_to_h", "ffn_down"}};

/// Rows of q, k and v of head after head: all of q, then all of k, then all of v.
inline void by_kind(StoredValues& tensor, std::size_t heads) {
  const std::size_t rows = static_cast<std::size_t>(tensor.shape[0]), width = tensor.values.size() / rows,
                    head = rows / heads / 3;
  const std::vector<float> old = tensor.values;
  for (std::size_t h = 0; h < heads; ++h)
    for (std::size_t kind = 0; kind < 3; ++kind)
      for (std::size_t i = 0; i < head * width; ++i)
        tensor.values[(kind * heads + h) * head * width + i] = old[(h * 3 + kind) * head * width + i];
}

/// Rows of q or k of every head: from halves to pairs.
inline void pair_up(StoredValues& tensor, std::size_t heads) {
  const std::size_t rows = static_cast<std::size_t>(tensor.shape[0]), width = tensor.values.size() / rows,
                    head = rows / heads, half = head / 2;
  const std::vector<float> old = tensor.values;
  for (std::size_t row = 0; row < rows; ++row) {
    const std::size_t first = row / head * head, within = row % head, from = first + within % 2 * half + within / 2;
    for (std::size_t i = 0; i < width; ++i) tensor.values[row * width + i] = old[from * width + i];
  }
}

inline void transpose(StoredValues& tensor) {
  if (tensor.shape.size() < 2) return;
  const auto rows = static_cast<std::size_t>(tensor.shape[0]), width = static_cast<std::size_t>(tensor.shape[1]);
  const std::vector<float> old = tensor.values;
  std::swap(tensor.shape[0], tensor.shape[1]);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < width; ++j) tensor.values[j * rows + i] = old[i * width + j];
}

/// Keys and tensors, in F32.
inline GgufBytes to_gguf(const Checkpoint& checkpoint) {
  const nlohmann::json& config = checkpoint.config;
  const std::string type = config.at("model_type");
  const std::string name = type == "mistral"   ? "llama"
                           : type == "roberta" ? "bert"
                           : type == "mt5"     ? "t5"
                           : type == "phi"     ? "phi2"
                                               : type;
  GgufBytes file;
  file.key("general.architecture", name).key("general.name", "small").key("general.file_type", 0u);
  const auto number = [&](const std::string& key, const char* theirs) {
    if (config.contains(theirs) && !config[theirs].is_null())
      file.key(name + "." + key, config[theirs].get<std::uint32_t>());
  };
  const auto real = [&](const std::string& key, const char* theirs) {
    file.key(name + "." + key, config.at(theirs).get<float>());
  };
  number("vocab_size", "vocab_size");
  const Replacements* names = &gguf_llama_names;
  const auto heads = config.value("num_attention_heads", config.value("n_head", std::size_t{0})),
             kv_heads = config.value("num_key_value_heads", heads);
  std::vector<float> divisors;
  if (name == "gpt2") {
    names = &gguf_gpt2_names;
    number("context_length", "n_positions");
    number("embedding_length", "n_embd");
    file.key("gpt2.feed_forward_length", 4 * config.at("n_embd").get<std::uint32_t>());
    number("block_count", "n_layer");
    number("attention.head_count", "n_head");
    real("attention.layer_norm_epsilon", "layer_norm_epsilon");
  } else if (name == "bloom") {
    names = &gguf_bloom_names;
    file.key("bloom.context_length", 64u);
    number("embedding_length", "hidden_size");
    number("block_count", "n_layer");
    number("attention.head_count", "n_head");
    number("attention.head_count_kv", "n_head");
    real("attention.layer_norm_epsilon", "layer_norm_epsilon");
  } else if (name == "t5") {
    names = &gguf_t5_names;
    file.key("t5.context_length", 512u);
    number("embedding_length", "d_model");
    number("feed_forward_length", "d_ff");
    number("block_count", "num_layers");
    number("decoder_block_count", "num_decoder_layers");
    number("attention.head_count", "num_heads");
    number("attention.key_length", "d_kv");
    number("attention.value_length", "d_kv");
    real("attention.layer_norm_epsilon", "layer_norm_epsilon");
    real("attention.layer_norm_rms_epsilon", "layer_norm_epsilon");
    number("attention.relative_buckets_count", "relative_attention_num_buckets");
    number("decoder_start_token_id", "decoder_start_token_id");
  } else {
    number("block_count", "num_hidden_layers");
    number("embedding_length", "hidden_size");
    number("feed_forward_length", "intermediate_size");
    number("attention.head_count", "num_attention_heads");
    number("attention.head_count_kv", "num_key_value_heads");
    if (name == "bert") {
      names = &gguf_bert_names;
      file.key("bert.context_length",
               config.at("max_position_embeddings").get<std::uint32_t>() - (type == "roberta" ? 2 : 0));
      real("attention.layer_norm_epsilon", "layer_norm_eps");
      file.key("bert.attention.causal", false).key("bert.pooling_type", 1u);
    } else {
      number("context_length", "max_position_embeddings");
      if (name == "phi2") {
        names = &gguf_phi2_names;
        real("attention.layer_norm_epsilon", "layer_norm_eps");
        file.key("phi2.rope.dimension_count",
                 static_cast<std::uint32_t>(config.at("partial_rotary_factor").get<double>() *
                                            config.at("hidden_size").get<double>() / static_cast<double>(heads)));
      } else {
        real("attention.layer_norm_rms_epsilon", "rms_norm_eps");
      }
      if (name == "gemma2") {
        names = &gguf_gemma2_names;
        number("attention.sliding_window", "sliding_window");
        real("attn_logit_softcapping", "attn_logit_softcapping");
        real("final_logit_softcapping", "final_logit_softcapping");
      }
      number("attention.key_length", "head_dim");
      number("attention.value_length", "head_dim");
      if (name == "llama") number("rope.dimension_count", "head_dim");
      const nlohmann::json rope = config.value("rope_parameters", config.value("rope_scaling", nlohmann::json()));
      const double base = rope.is_object() && rope.contains("rope_theta") ? rope["rope_theta"].get<double>()
                                                                          : config.at("rope_theta").get<double>();
      file.key(name + ".rope.freq_base", static_cast<float>(base));
      const std::string kind = rope.is_object() ? rope.value("rope_type", "default") : "default";
      if (kind == "linear" || kind == "yarn") {
        file.key(name + ".rope.scaling.type", kind).key(name + ".rope.scaling.factor", rope.at("factor").get<float>());
        if (kind == "yarn")
          file.key(name + ".rope.scaling.original_context_length",
                   rope.at("original_max_position_embeddings").get<std::uint32_t>());
      }
      if (kind == "llama3") {
        const double factor = rope.at("factor"), low = rope.at("low_freq_factor"), high = rope.at("high_freq_factor"),
                     length = rope.at("original_max_position_embeddings");
        const int width = config.at("head_dim");
        for (int i = 0; i < width; i += 2) {
          const double wave = 2 * std::numbers::pi * std::pow(base, static_cast<double>(i) / width),
                       smooth = (length / wave - low) / (high - low);
          divisors.push_back(static_cast<float>(wave < length / high  ? 1
                                                : wave > length / low ? factor
                                                                      : 1 / ((1 - smooth) / factor + smooth)));
        }
      }
    }
  }
  const auto token = [&](const char* key, const char* theirs) {
    if (config.contains(theirs) && config[theirs].is_number())
      file.key(std::string("tokenizer.ggml.") + key, config[theirs].get<std::uint32_t>());
  };
  file.key("tokenizer.ggml.model", "gpt2").list("tokenizer.ggml.tokens", {"a", "b"});
  token("bos_token_id", "bos_token_id");
  token("eos_token_id", "eos_token_id");
  token("padding_token_id", "pad_token_id");

  if (!divisors.empty()) file.tensor("rope_freqs.weight", {static_cast<Index>(divisors.size())}, divisors);
  for (auto [theirs, tensor] : checkpoint.tensors) {
    std::string ours = replaced(theirs, *names);
    if (ours.empty()) continue;
    if (name == "t5")
      ours = replaced(ours, {{"layer.1.layer_norm", ours.starts_with("enc.") ? "ffn_norm" : "cross_attn_norm"}});
    if (name == "llama" && ours.find("attn_q.") != std::string::npos) pair_up(tensor, heads);
    if (name == "llama" && ours.find("attn_k.") != std::string::npos) pair_up(tensor, kv_heads);
    if (name == "gemma2" && ours.ends_with("norm.weight"))
      for (float& value : tensor.values) value += 1;
    if (name == "gemma2" && ours.find("attn_q.") != std::string::npos)  // the format has one scale of scores alone
      for (float& value : tensor.values)
        value *= static_cast<float>(
            std::sqrt(config.at("head_dim").get<double>() / config.at("query_pre_attn_scalar").get<double>()));
    if (name == "bloom" && ours.find("attn_qkv.") != std::string::npos) by_kind(tensor, heads);
    if (name == "gpt2" && theirs.find(".c_") != std::string::npos) transpose(tensor);
    if (type == "roberta" && ours == "position_embd.weight") {  // the first two rows are no positions
      tensor.values.erase(tensor.values.begin(), tensor.values.begin() + 2 * tensor.shape[1]);
      tensor.shape[0] -= 2;
    }
    file.tensor(ours, tensor.shape, tensor.values);
  }
  return file;
}

inline Gguf open_gguf(const GgufBytes& file) { return {std::make_unique<std::istringstream>(file.bytes()), "file"}; }

}  // namespace eigenformer::test
