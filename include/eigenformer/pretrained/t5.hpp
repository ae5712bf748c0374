// Checkpoints of T5, version 1.0 and 1.1 (and Flan-T5, mT5), in the layout of transformers.
#pragma once

#include <array>
#include <cstddef>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string_view>

#include "eigenformer/model/t5.hpp"
#include "eigenformer/pretrained/pretrained.hpp"

namespace eigenformer::inline EIGENFORMER_ABI::detail {

inline constexpr NameRow t5_rows[] = {
    {.ours = "embedding", .theirs = "shared", .copies = {"encoder.embed_tokens", "decoder.embed_tokens", "lm_head"}},
    {.ours = "position", .theirs = "encoder.block.0.layer.0.SelfAttention.relative_attention_bias"},
    {.ours = "target_position", .theirs = "decoder.block.0.layer.0.SelfAttention.relative_attention_bias"},
    {.ours = "encoder.blocks.*.attention.query", .theirs = "encoder.block.*.layer.0.SelfAttention.q"},
    {.ours = "encoder.blocks.*.attention.key", .theirs = "encoder.block.*.layer.0.SelfAttention.k"},
    {.ours = "encoder.blocks.*.attention.value", .theirs = "encoder.block.*.layer.0.SelfAttention.v"},
    {.ours = "encoder.blocks.*.attention.output", .theirs = "encoder.block.*.layer.0.SelfAttention.o"},
    {.ours = "encoder.blocks.*.attention_residual.norm", .theirs = "encoder.block.*.layer.0.layer_norm"},
    {.ours = "encoder.blocks.*.feed_forward.gate", .theirs = "encoder.block.*.layer.1.DenseReluDense.wi_0"},
    {.ours = "encoder.blocks.*.feed_forward.up", .theirs = "encoder.block.*.layer.1.DenseReluDense.wi"},
    {.ours = "encoder.blocks.*.feed_forward.down", .theirs = "encoder.block.*.layer.1.DenseReluDense.wo"},
    {.ours = "encoder.blocks.*.feed_forward_residual.norm", .theirs = "encoder.block.*.layer.1.layer_norm"},
    {.ours = "encoder.norm", .theirs = "encoder.final_layer_norm"},
    {.ours = "decoder.blocks.*.self_attention.query", .theirs = "decoder.block.*.layer.0.SelfAttention.q"},
    {.ours = "decoder.blocks.*.self_attention.key", .theirs = "decoder.block.*.layer.0.SelfAttention.k"},
    {.ours = "decoder.blocks.*.self_attention.value", .theirs = "decoder.block.*.layer.0.SelfAttention.v"},
    {.ours = "decoder.blocks.*.self_attention.output", .theirs = "decoder.block.*.layer.0.SelfAttention.o"},
    {.ours = "decoder.blocks.*.self_attention_residual.norm", .theirs = "decoder.block.*.layer.0.layer_norm"},
    {.ours = "decoder.blocks.*.cross_attention.query", .theirs = "decoder.block.*.layer.1.EncDecAttention.q"},
    {.ours = "decoder.blocks.*.cross_attention.key", .theirs = "decoder.block.*.layer.1.EncDecAttention.k"},
    {.ours = "decoder.blocks.*.cross_attention.value", .theirs = "decoder.block.*.layer.1.EncDecAttention.v"},
    {.ours = "decoder.blocks.*.cross_attention.output", .theirs = "decoder.block.*.layer.1.EncDecAttention.o"},
    {.ours = "decoder.blocks.*.cross_attention_residual.norm", .theirs = "decoder.block.*.layer.1.layer_norm"},
    {.ours = "decoder.blocks.*.feed_forward.gate", .theirs = "decoder.block.*.layer.2.DenseReluDense.wi_0"},
    {.ours = "decoder.blocks.*.feed_forward.up", .theirs = "decoder.block.*.layer.2.DenseReluDense.wi"},
    {.ours = "decoder.blocks.*.feed_forward.down", .theirs = "decoder.block.*.layer.2.DenseReluDense.wo"},
    {.ours = "decoder.blocks.*.feed_forward_residual.norm", .theirs = "decoder.block.*.layer.2.layer_norm"},
    {.ours = "decoder.norm", .theirs = "decoder.final_layer_norm"},
    {.ours = "head", .theirs = "lm_head"}};

/// Version 1.1 has two matrices in the place of wi.
inline constexpr auto t5v11_rows = [] {
  std::array<NameRow, std::size(t5_rows)> rows{};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i] = t5_rows[i];
    if (rows[i].ours == "encoder.blocks.*.feed_forward.up")
      rows[i].theirs = "encoder.block.*.layer.1.DenseReluDense.wi_1";
    if (rows[i].ours == "decoder.blocks.*.feed_forward.up")
      rows[i].theirs = "decoder.block.*.layer.2.DenseReluDense.wi_1";
  }
  return rows;
}();
/// In the first checkpoints, never used.
inline constexpr std::string_view t5_skipped[] = {
    "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"};

struct T5Traits {
  template <Real T>
  using Model = T5<T>;
  using Config = T5<>::Config;
  static constexpr bool gated = false;
  static constexpr std::string_view feed_forward = "relu", activation = "relu";
  static constexpr std::span<const NameRow> rows = t5_rows;
};
struct T5v11Traits {
  template <Real T>
  using Model = T5v11<T>;
  using Config = T5v11<>::Config;
  static constexpr bool gated = true;
  static constexpr std::string_view feed_forward = "gated-gelu", activation = "gelu_new";
  static constexpr std::span<const NameRow> rows = t5v11_rows;
};

template <class Traits>
struct T5Family {
  template <Real T>
  using Model = typename Traits::template Model<T>;
  using Config = typename Traits::Config;
  static constexpr std::string_view types[] = {"t5", "mt5"}, name = Traits::gated ? "t5v1.1" : "t5";
  static bool claims(ConfigFile& file) {
    return file.text("feed_forward_proj", "relu").starts_with("gated") == Traits::gated;
  }
  static constexpr Naming naming{.prefix = "", .rows = Traits::rows, .skipped = t5_skipped};

  static Described<Config> read(ConfigFile& file, const TensorList& tensors) {
    read_common(file, true);
    file.only("feed_forward_proj", {Traits::feed_forward});
    file.only("dense_act_fn", {Traits::activation});
    file.only("is_gated_act", {Traits::gated});
    file.only("relative_attention_num_buckets", {32});
    file.only("relative_attention_max_distance", {128});
    file.ignore_all(std::array{"n_positions", "max_position_embeddings"});  // relative positions have no end
    const Index width = tensors.size(file, "d_model"), vocabulary = tensors.size(file, "vocab_size"),
                layers = tensors.layers(file, "num_layers");
    const Head head = read_head(file, tensors);
    auto config =
        t5_config<Config>(layers, width, tensors.size(file, "d_ff"), tensors.size(file, "num_heads"), head.scaled);
    config.decoder_layers = tensors.layers(file, "num_decoder_layers", layers);
    config.source_vocabulary = config.target_vocabulary = vocabulary;
    config.block.attention.head_width = tensors.size(file, "d_kv");
    config.block.residual.norm.epsilon = file.positive("layer_norm_epsilon", 1e-6);
    config.block.dropout = file.probability("dropout_rate", 0.1);
    config.sharing = head.tied ? Sharing::all : Sharing::source_and_target;
    return {config, read_facts(file, 0)};
  }

  template <Real T>
  static nlohmann::json write(const Model<T>& model, const PretrainedFacts& facts) {
    nlohmann::json json = write_common<T>(types[0], "T5ForConditionalGeneration", facts);
    ensure(!model.encoder.blocks.empty() && !model.decoder.blocks.empty(), "pretrained",
           "a model without layers cannot be saved in this format");
    const auto& config = model.config;
    json.update({{"is_encoder_decoder", true},
                 {"vocab_size", config.source_vocabulary},
                 {"num_layers", config.encoder_layers},
                 {"num_decoder_layers", config.decoder_layers},
                 {"d_model", config.block.width},
                 {"d_ff", config.block.hidden},
                 {"d_kv", config.block.attention.head_width},
                 {"num_heads", config.block.heads},
                 {"layer_norm_epsilon", config.block.residual.norm.epsilon},
                 {"dropout_rate", config.block.dropout},
                 {"feed_forward_proj", Traits::feed_forward},
                 {"relative_attention_num_buckets", config.position.buckets},
                 {"relative_attention_max_distance", config.position.furthest}});
    const bool tied = config.sharing == Sharing::all, scaled = config.logit_scale != 1;
    json["tie_word_embeddings"] = tied;
    if (tied != scaled)  // which only the newer versions can say
      json.update(
          {{"tie_word_embeddings", true}, {"scale_decoder_outputs", scaled}, {"transformers_version", "5.12.0"}});
    return json;
  }

 private:
  struct Head {
    bool tied;    // to the embedding
    bool scaled;  // hidden states are divided by √D before it
  };
  /// transformers 4 has one flag for both, 5 another one for the scale: there the first is always true, a head that is
  /// in the file is one of its own nevertheless, and mT5 is never scaled.
  static Head read_head(ConfigFile& file, const TensorList& tensors) {
    const bool multilingual = file.text("model_type") == "mt5";
    const bool tied = file.flag("tie_word_embeddings", !multilingual),
               scaled = file.flag("scale_decoder_outputs", tied && !multilingual);
    const std::optional<int> version = major_version(file);
    if (version ? *version >= 5 : file.has("scale_decoder_outputs")) {
      if (multilingual) file.only("scale_decoder_outputs", {false});
      return {(tied || !file.has("tie_word_embeddings")) && !tensors.find("lm_head.weight"), scaled};
    }
    if (file.has("scale_decoder_outputs")) file.only("scale_decoder_outputs", {tied});
    if (multilingual && tied && !version)
      file.refuse("tie_word_embeddings",
                  "is true without a transformers_version: version 4 then divides by the root of d_model before the "
                  "head, 5 does not");
    return {tied, tied};
  }
};

}  // namespace eigenformer::detail
