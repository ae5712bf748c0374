// Checkpoints of BART and of Marian's translation models in the layout of transformers.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "eigenformer/model/marian.hpp"
#include "eigenformer/model/t5.hpp"
#include "eigenformer/pretrained/pretrained.hpp"

namespace eigenformer::inline EIGENFORMER_ABI::detail {

inline constexpr NameRow bart_rows[] = {
    {.ours = "embedding", .theirs = "shared", .copies = {"encoder.embed_tokens", "decoder.embed_tokens", "/lm_head"}},
    {.ours = "position", .theirs = "encoder.embed_positions"},
    {.ours = "target_position", .theirs = "decoder.embed_positions"},
    {.ours = "embedding_norm", .theirs = "encoder.layernorm_embedding"},
    {.ours = "target_embedding_norm", .theirs = "decoder.layernorm_embedding"},
    {.ours = "encoder.blocks.*.attention.query", .theirs = "encoder.layers.*.self_attn.q_proj"},
    {.ours = "encoder.blocks.*.attention.key", .theirs = "encoder.layers.*.self_attn.k_proj"},
    {.ours = "encoder.blocks.*.attention.value", .theirs = "encoder.layers.*.self_attn.v_proj"},
    {.ours = "encoder.blocks.*.attention.output", .theirs = "encoder.layers.*.self_attn.out_proj"},
    {.ours = "encoder.blocks.*.attention_residual.norm", .theirs = "encoder.layers.*.self_attn_layer_norm"},
    {.ours = "encoder.blocks.*.feed_forward.up", .theirs = "encoder.layers.*.fc1"},
    {.ours = "encoder.blocks.*.feed_forward.down", .theirs = "encoder.layers.*.fc2"},
    {.ours = "encoder.blocks.*.feed_forward_residual.norm", .theirs = "encoder.layers.*.final_layer_norm"},
    {.ours = "decoder.blocks.*.self_attention.query", .theirs = "decoder.layers.*.self_attn.q_proj"},
    {.ours = "decoder.blocks.*.self_attention.key", .theirs = "decoder.layers.*.self_attn.k_proj"},
    {.ours = "decoder.blocks.*.self_attention.value", .theirs = "decoder.layers.*.self_attn.v_proj"},
    {.ours = "decoder.blocks.*.self_attention.output", .theirs = "decoder.layers.*.self_attn.out_proj"},
    {.ours = "decoder.blocks.*.self_attention_residual.norm", .theirs = "decoder.layers.*.self_attn_layer_norm"},
    {.ours = "decoder.blocks.*.cross_attention.query", .theirs = "decoder.layers.*.encoder_attn.q_proj"},
    {.ours = "decoder.blocks.*.cross_attention.key", .theirs = "decoder.layers.*.encoder_attn.k_proj"},
    {.ours = "decoder.blocks.*.cross_attention.value", .theirs = "decoder.layers.*.encoder_attn.v_proj"},
    {.ours = "decoder.blocks.*.cross_attention.output", .theirs = "decoder.layers.*.encoder_attn.out_proj"},
    {.ours = "decoder.blocks.*.cross_attention_residual.norm", .theirs = "decoder.layers.*.encoder_attn_layer_norm"},
    {.ours = "decoder.blocks.*.feed_forward.up", .theirs = "decoder.layers.*.fc1"},
    {.ours = "decoder.blocks.*.feed_forward.down", .theirs = "decoder.layers.*.fc2"},
    {.ours = "decoder.blocks.*.feed_forward_residual.norm", .theirs = "decoder.layers.*.final_layer_norm"},
    {.ours = "logit_bias", .theirs = "/final_logits_bias", .storage = {.row = true}}};
inline constexpr std::string_view bart_zero[] = {"final_logits_bias"};
inline constexpr std::string_view marian_skipped[] = {"*embed_positions.weight"};  // tables of sines and cosines

struct BartTraits {
  template <Real T>
  using Model = Bart<T>;
  using Config = Bart<>::Config;
  static constexpr std::string_view types[] = {"bart"}, architecture = "BartForConditionalGeneration";
  static constexpr std::string_view activation = "gelu", synonym = activation;
  static constexpr bool sinusoids = false, embedding_norm = true, logit_bias = false;
  static constexpr std::span<const std::string_view> skipped{}, zero = bart_zero;
};
struct MarianTraits {
  template <Real T>
  using Model = Marian<T>;
  using Config = Marian<>::Config;
  static constexpr std::string_view types[] = {"marian"}, architecture = "MarianMTModel";
  static constexpr std::string_view activation = "swish", synonym = "silu";
  static constexpr bool sinusoids = true, embedding_norm = false, logit_bias = true;
  static constexpr std::span<const std::string_view> skipped = marian_skipped, zero{};
};

template <class Traits>
struct BartFamily {
  template <Real T>
  using Model = typename Traits::template Model<T>;
  using Config = typename Traits::Config;
  static constexpr auto& types = Traits::types;
  static bool claims(ConfigFile&) { return true; }
  static constexpr Naming naming{
      .prefix = "model.", .rows = bart_rows, .skipped = Traits::skipped, .zero = Traits::zero};

  static Described<Config> read(ConfigFile& file, const TensorList& tensors) {
    read_common(file, true);
    file.only("activation_function", {Traits::activation, Traits::synonym});
    for (const char* key : {"normalize_before", "add_final_layer_norm", "add_bias_logits"}) file.only(key, {false});
    file.only("normalize_embedding", {Traits::embedding_norm});
    file.only("static_position_embeddings", {Traits::sinusoids});
    if (Traits::sinusoids) file.ignore("extra_pos_embeddings");
    else file.only("extra_pos_embeddings", {2});
    for (const char* key : {"tie_word_embeddings", "share_encoder_decoder_embeddings"}) file.only(key, {true});
    file.ignore("num_hidden_layers");  // again the encoder's
    const Index vocabulary = tensors.size(file, "vocab_size"),
                max_positions = file.integer("max_position_embeddings", 1, most_tokens);
    file.only("decoder_vocab_size", {vocabulary});
    // Both stacks have blocks of one size.
    const auto both = [&](const char* encoder, const char* decoder) {
      const Index size = tensors.size(file, encoder), other = tensors.size(file, decoder);
      if (other != size) file.refuse(decoder, "is ", other, ", but ", encoder, " is ", size);
      return size;
    };
    return {{.source_vocabulary = vocabulary,
             .target_vocabulary = vocabulary,
             .encoder_layers = tensors.layers(file, "encoder_layers"),
             .decoder_layers = tensors.layers(file, "decoder_layers"),
             .block = {.width = tensors.size(file, "d_model"),
                       .hidden = both("encoder_ffn_dim", "decoder_ffn_dim"),
                       .heads = both("encoder_attention_heads", "decoder_attention_heads"),
                       .dropout = file.probability("dropout", 0.1)},
             .max_positions = max_positions,
             .scaled_embedding = file.flag("scale_embedding", false),
             .embedding_norm = Traits::embedding_norm,
             .logit_bias = Traits::logit_bias},
            read_facts(file, max_positions)};
  }

  template <Real T>
  static nlohmann::json write(const Model<T>& model, const PretrainedFacts& facts) {
    nlohmann::json json = write_common<T>(types[0], Traits::architecture, facts);
    ensure(!model.encoder.blocks.empty() && !model.decoder.blocks.empty(), "pretrained",
           "a model without layers cannot be saved in this format");
    const auto& config = model.config;
    Index max_positions = facts.max_positions;
    if constexpr (requires { config.position.max_positions; }) max_positions = config.position.max_positions;
    ensure(max_positions > 0, "pretrained", "facts.max_positions must say for how many tokens the model is made");
    json.update({{"is_encoder_decoder", true},
                 {"vocab_size", config.source_vocabulary},
                 {"max_position_embeddings", max_positions},
                 {"d_model", config.block.width},
                 {"encoder_layers", config.encoder_layers},
                 {"decoder_layers", config.decoder_layers},
                 {"encoder_ffn_dim", config.block.hidden},
                 {"decoder_ffn_dim", config.decoder_block->hidden},
                 {"encoder_attention_heads", config.block.heads},
                 {"decoder_attention_heads", config.decoder_block->heads},
                 {"activation_function", Traits::activation},
                 {"dropout", config.block.dropout},
                 {"scale_embedding", config.scaled_embedding},
                 {"tie_word_embeddings", true}});
    return json;
  }
};

}  // namespace eigenformer::detail
