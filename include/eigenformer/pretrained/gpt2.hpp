// Checkpoints of GPT-2 (Radford et al. 2019), in the layouts of transformers and of minGPT
// (github.com/karpathy/minGPT).
#pragma once

#include <array>
#include <string_view>

#include "eigenformer/model/decoders.hpp"
#include "eigenformer/pretrained/pretrained.hpp"

namespace eigenformer::inline EIGENFORMER_ABI::detail {

/// q, k and v are one matrix. In transformers all four maps of a block are (In, Out), in minGPT (Out, In).
constexpr std::array<NameRow, 12> gpt2_names(bool transposed) {
  return {
      {{.ours = "embedding", .theirs = "wte", .copies = {"/lm_head"}},
       {.ours = "position", .theirs = "wpe"},
       {.ours = "decoder.blocks.*.attention_residual.norm", .theirs = "h.*.ln_1"},
       {.ours = "decoder.blocks.*.attention.query",
        .theirs = "h.*.attn.c_attn",
        .storage = {.part = 0, .parts = 3, .transposed = transposed}},
       {.ours = "decoder.blocks.*.attention.key",
        .theirs = "h.*.attn.c_attn",
        .storage = {.part = 1, .parts = 3, .transposed = transposed}},
       {.ours = "decoder.blocks.*.attention.value",
        .theirs = "h.*.attn.c_attn",
        .storage = {.part = 2, .parts = 3, .transposed = transposed}},
       {.ours = "decoder.blocks.*.attention.output",
        .theirs = "h.*.attn.c_proj",
        .storage = {.transposed = transposed}},
       {.ours = "decoder.blocks.*.feed_forward_residual.norm", .theirs = "h.*.ln_2"},
       {.ours = "decoder.blocks.*.feed_forward.up", .theirs = "h.*.mlp.c_fc", .storage = {.transposed = transposed}},
       {.ours = "decoder.blocks.*.feed_forward.down",
        .theirs = "h.*.mlp.c_proj",
        .storage = {.transposed = transposed}},
       {.ours = "decoder.norm", .theirs = "ln_f"},
       {.ours = "head", .theirs = "/lm_head"}}};
}
inline constexpr auto gpt2_rows = gpt2_names(true), min_gpt_rows = gpt2_names(false);
inline constexpr std::string_view gpt2_skipped[] = {"*.attn.bias", "*.attn.masked_bias"};  // causal masks

struct Gpt2Family {
  template <Real T>
  using Model = Gpt2<T>;
  static constexpr std::string_view types[] = {"gpt2"};
  static bool claims(ConfigFile& file) { return !file.has("block_size"); }
  static constexpr Naming naming{.prefix = "transformer.", .rows = gpt2_rows, .skipped = gpt2_skipped};

  static Described<Gpt2<>::Config> read(ConfigFile& file, const TensorList& tensors) {
    read_common(file, false);
    const Index width = tensors.size(file, "n_embd"), max_positions = tensors.size(file, "n_positions");
    file.only("activation_function", {"gelu_new", "gelu_pytorch_tanh"});
    file.only("scale_attn_weights", {true});
    file.only("scale_attn_by_inverse_layer_idx", {false});
    file.ignore_all(std::array{"n_ctx", "n_special", "predict_special_tokens", "reorder_and_upcast_attn",
                               "summary_activation", "summary_first_dropout", "summary_proj_to_labels", "summary_type",
                               "summary_use_proj"});
    return {{.vocabulary = tensors.size(file, "vocab_size"),
             .max_positions = max_positions,
             .layers = tensors.layers(file, "n_layer"),
             .block = {.width = width,
                       .hidden = tensors.size(file, "n_inner", 4 * width),
                       .heads = tensors.size(file, "n_head"),
                       .dropout = file.probability("resid_pdrop", 0.1),
                       .residual = {.norm = {.epsilon = file.positive("layer_norm_epsilon", 1e-5)}}},
             .tied = file.flag("tie_word_embeddings", true)},
            read_facts(file, max_positions)};
  }

  template <Real T>
  static nlohmann::json write(const Gpt2<T>& model, const PretrainedFacts& facts) {
    nlohmann::json json = write_common<T>(types[0], "GPT2LMHeadModel", facts);
    ensure(!model.decoder.blocks.empty(), "pretrained", "a model without layers cannot be saved in this format");
    const auto& config = model.config;
    const auto block = config.stack().layer(0);
    json.update({{"vocab_size", config.vocabulary},
                 {"n_positions", config.max_positions},
                 {"n_embd", block.width},
                 {"n_inner", block.hidden},
                 {"n_layer", config.layers},
                 {"n_head", block.heads},
                 {"activation_function", "gelu_new"},
                 {"layer_norm_epsilon", block.residual.norm.epsilon},
                 {"tie_word_embeddings", config.tied}});
    for (const char* key : {"resid_pdrop", "embd_pdrop", "attn_pdrop"}) json[key] = config.block.dropout;
    return json;
  }
};

struct MinGptFamily {
  template <Real T>
  using Model = Gpt2<T>;
  static constexpr std::string_view types[] = {"gpt-nano", "gpt-micro",   "gpt-mini",   "gopher-44m", "openai-gpt",
                                               "gpt2",     "gpt2-medium", "gpt2-large", "gpt2-xl"};
  static bool claims(ConfigFile& file) { return file.has("block_size"); }
  static constexpr Naming naming{.prefix = "transformer.", .rows = min_gpt_rows, .skipped = gpt2_skipped};

  static Described<Gpt2<>::Config> read(ConfigFile& file, const TensorList& tensors) {
    file.ignore_all(std::array{"model_type", "embd_pdrop", "attn_pdrop"});
    const Index width = tensors.size(file, "n_embd"), max_positions = tensors.size(file, "block_size");
    return {{.vocabulary = tensors.size(file, "vocab_size"),
             .max_positions = max_positions,
             .layers = tensors.layers(file, "n_layer"),
             .block = {.width = width,
                       .hidden = 4 * width,
                       .heads = tensors.size(file, "n_head"),
                       .dropout = file.probability("resid_pdrop", 0.1)},
             .tied = false},
            {.max_positions = max_positions}};
  }
};

}  // namespace eigenformer::detail
