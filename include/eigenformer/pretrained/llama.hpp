// Checkpoints of LLaMA, Mistral, Qwen 2 and Qwen 3 in the layout of transformers. Rotary positions are there in halves,
// as RotaryLayout::halves; rows of q and k of a model with interleaved pairs are permuted when it is saved.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "eigenformer/model/decoders.hpp"
#include "eigenformer/pretrained/pretrained.hpp"

namespace eigenformer::inline EIGENFORMER_ABI::detail {

inline constexpr NameRow llama_rows[] = {
    {.ours = "embedding", .theirs = "embed_tokens", .copies = {"/lm_head"}},
    {.ours = "decoder.blocks.*.attention_residual.norm", .theirs = "layers.*.input_layernorm"},
    {.ours = "decoder.blocks.*.attention.query", .theirs = "layers.*.self_attn.q_proj"},
    {.ours = "decoder.blocks.*.attention.key", .theirs = "layers.*.self_attn.k_proj"},
    {.ours = "decoder.blocks.*.attention.value", .theirs = "layers.*.self_attn.v_proj"},
    {.ours = "decoder.blocks.*.attention.output", .theirs = "layers.*.self_attn.o_proj"},
    {.ours = "decoder.blocks.*.attention.heads.query_norm", .theirs = "layers.*.self_attn.q_norm"},
    {.ours = "decoder.blocks.*.attention.heads.key_norm", .theirs = "layers.*.self_attn.k_norm"},
    {.ours = "decoder.blocks.*.feed_forward_residual.norm", .theirs = "layers.*.post_attention_layernorm"},
    {.ours = "decoder.blocks.*.feed_forward.gate", .theirs = "layers.*.mlp.gate_proj"},
    {.ours = "decoder.blocks.*.feed_forward.up", .theirs = "layers.*.mlp.up_proj"},
    {.ours = "decoder.blocks.*.feed_forward.down", .theirs = "layers.*.mlp.down_proj"},
    {.ours = "decoder.norm", .theirs = "norm"},
    {.ours = "head", .theirs = "/lm_head"}};
inline constexpr std::string_view llama_skipped[] = {"*.rotary_emb.inv_freq"};

/// LongRoPE's attention factor, if there is none: of `factor`, where it is not the ratio of the lengths. transformers 5
/// goes by it; 4 goes by the ratio, if the original length stands outside of rope_scaling, the only place where it
/// looks.
inline void read_long_factor(ConfigFile& file, ConfigFile& rope, bool newer, LongScaling& scaling, bool outside) {
  const std::optional<int> version = newer ? std::optional(5) : major_version(file);
  const bool five = version.value_or(4) >= 5;
  if (!five && !outside && scaling.original != scaling.max_positions)
    rope.refuse("original_max_position_embeddings", "is ", scaling.original,
                ", but transformers 4 takes max_position_embeddings, ", scaling.max_positions,
                ", unless that key stands outside of this object; 5 would have said so in transformers_version");
  const double ratio = static_cast<double>(scaling.max_positions) / static_cast<double>(scaling.original),
               factor = rope.positive("factor", ratio);
  if (factor == ratio || scaling.attention_factor || (version && !five && outside)) return;
  if (!version && outside)
    rope.refuse("factor", "is ", factor, ", but the ratio of the lengths is ", ratio,
                ": transformers 5 goes by the one, 4 by the other, and there is no transformers_version");
  scaling.attention_factor =
      factor <= 1 ? 1 : std::sqrt(1 + std::log(factor) / std::log(static_cast<double>(scaling.original)));
}

/// rope_theta and rope_scaling, or the newer rope_parameters, which contain both.
inline RotaryConfig read_rope(ConfigFile& file, Index max_positions) {
  RotaryConfig config;
  const bool newer = file.has("rope_parameters");
  const std::string key = newer ? "rope_parameters" : "rope_scaling";
  if (newer && file.has("rope_scaling")) file.refuse("rope_scaling", "is there beside rope_parameters");
  file.ignore_all(std::array{"rope_parameters", "rope_scaling"});
  file.only("partial_rotary_factor", {1.0});
  file.only("rope_interleaved", {false});
  file.ignore("is_llama_config");
  const double base = file.positive("rope_theta", 10000);
  config.base = base;
  const std::optional<Index> above =
      file.has("original_max_position_embeddings")
          ? std::optional(file.integer("original_max_position_embeddings", 1, most_tokens))
          : std::nullopt;
  if (!file.has(key)) {
    if (above) file.refuse("original_max_position_embeddings", "is there without ", key);
    return config;
  }
  ConfigFile rope = file.part(key);
  if (newer) {
    config.base = rope.positive("rope_theta", base);
    rope.only("partial_rotary_factor", {1.0});
  }
  const std::string type = rope.has("rope_type")
                               ? rope.text("rope_type")
                               : rope.text("type", newer ? std::optional<std::string>("default") : std::nullopt);
  if (rope.has("type") && rope.text("type") != type)
    rope.refuse("type", "is ", in_quotes(rope.text("type")), ", but rope_type is ", in_quotes(type));
  const std::optional<Index> said =
      rope.has("original_max_position_embeddings")
          ? std::optional(rope.integer("original_max_position_embeddings", 1, most_tokens))
          : above;
  if (above && *said != *above)
    rope.refuse("original_max_position_embeddings", "is ", *said, ", but outside of this object ", *above);
  const Index original = said.value_or(max_positions);
  const auto attention_factor = [&] {
    return rope.has("attention_factor") ? std::optional(rope.positive("attention_factor")) : std::nullopt;
  };
  if (type == "linear") {
    config.scaling = LinearScaling{rope.positive("factor")};
  } else if (type == "ntk") {
    config.scaling = NtkScaling{rope.positive("factor")};
  } else if (type == "dynamic") {
    // transformers looks at max_position_embeddings alone.
    if (original != max_positions)
      rope.refuse("original_max_position_embeddings", "is ", original, ", but max_position_embeddings ", max_positions);
    config.scaling = DynamicNtkScaling{rope.positive("factor"), original};
  } else if (type == "yarn") {
    const double factor =
        rope.positive("factor", said ? std::optional(static_cast<double>(max_positions) / static_cast<double>(original))
                                     : std::nullopt);
    std::optional<double> by = attention_factor();
    const auto or_zero = [&](const char* name) { return rope.real(name, 0) == 0 ? 0 : rope.positive(name); };
    const double scale = or_zero("mscale"), of_all = or_zero("mscale_all_dim"),
                 growth = 0.1 * std::log((std::max)(factor, 1.0));
    if (!by && scale > 0 && of_all > 0) by = (scale * growth + 1) / (of_all * growth + 1);  // one alone changes nothing
    config.scaling = YarnScaling{factor,
                                 original,
                                 rope.positive("beta_fast", 32),
                                 rope.positive("beta_slow", 1),
                                 by,
                                 rope.flag("truncate", true)};
  } else if (type == "longrope" || type == "su") {
    config.scaling =
        LongScaling{rope.reals("short_factor"), rope.reals("long_factor"), original, max_positions, attention_factor()};
    read_long_factor(file, rope, newer, std::get<LongScaling>(config.scaling), above.has_value());
  } else if (type == "llama3") {
    if (!said) rope.refuse("original_max_position_embeddings", "is missing");
    config.scaling = Llama3Scaling{rope.positive("factor"), rope.positive("low_freq_factor"),
                                   rope.positive("high_freq_factor"), original};
  } else if (type != "default") {
    rope.refuse(rope.has("rope_type") ? "rope_type" : "type", "is ", in_quotes(type),
                ", but only linear, dynamic, ntk, yarn, longrope and llama3 are supported");
  }
  rope.finish();
  return config;
}

inline void write_rope(nlohmann::json& json, const RotaryConfig& config, Index max_positions) {
  json["rope_theta"] = config.base;
  nlohmann::json rope;
  if (const auto* linear = std::get_if<LinearScaling>(&config.scaling))
    rope = {{"rope_type", "linear"}, {"factor", linear->factor}};
  if (std::holds_alternative<NtkScaling>(config.scaling))
    fail("pretrained", "NTK-aware scaling cannot be saved in this format: set the base instead");
  if (std::holds_alternative<FactorScaling>(config.scaling))
    fail("pretrained", "a divisor for every rotary frequency cannot be saved in this format");
  if (const auto* dynamic = std::get_if<DynamicNtkScaling>(&config.scaling)) {
    ensure(dynamic->original == max_positions, "pretrained", "dynamic scaling from ", dynamic->original,
           " tokens can only be saved with that as max_positions, not ", max_positions);
    rope = {{"rope_type", "dynamic"}, {"factor", dynamic->factor}};
  }
  if (const auto* yarn = std::get_if<YarnScaling>(&config.scaling)) {
    rope = {{"rope_type", "yarn"},
            {"factor", yarn->factor},
            {"original_max_position_embeddings", yarn->original},
            {"beta_fast", yarn->fast},
            {"beta_slow", yarn->slow}};
    if (yarn->attention_factor) rope["attention_factor"] = *yarn->attention_factor;
    if (!yarn->truncated) rope["truncate"] = false;
  }
  if (const auto* by = std::get_if<LongScaling>(&config.scaling)) {
    ensure(by->max_positions == max_positions, "pretrained", "LongRoPE up to ", by->max_positions,
           " tokens can only be saved with that as max_positions, not ", max_positions);
    rope = {{"rope_type", "longrope"}, {"short_factor", by->short_factors}, {"long_factor", by->long_factors}};
    if (by->attention_factor) rope["attention_factor"] = *by->attention_factor;
    json["original_max_position_embeddings"] = by->original;  // where transformers looks for it
  }
  if (const auto* llama3 = std::get_if<Llama3Scaling>(&config.scaling))
    rope = {{"rope_type", "llama3"},
            {"factor", llama3->factor},
            {"low_freq_factor", llama3->low},
            {"high_freq_factor", llama3->high},
            {"original_max_position_embeddings", llama3->original}};
  json["rope_scaling"] = rope;
}

/// LLaMA, Mistral and Qwen 2.
struct LlamaTraits {
  template <Real T>
  using Model = Llama<T>;
  using Config = Llama<>::Config;
  static constexpr std::string_view types[] = {"llama", "mistral", "qwen2"};
  static constexpr bool head_norms = false;
};
struct Qwen3Traits {
  template <Real T>
  using Model = Qwen3<T>;
  using Config = Qwen3<>::Config;
  static constexpr std::string_view types[] = {"qwen3"};
  static constexpr bool head_norms = true;  // of queries and keys
};

template <class Traits>
struct LlamaFamily {
  template <Real T>
  using Model = typename Traits::template Model<T>;
  using Config = typename Traits::Config;
  static constexpr auto& types = Traits::types;
  static bool claims(ConfigFile&) { return true; }
  static constexpr Naming naming{.prefix = "model.", .rows = llama_rows, .skipped = llama_skipped};

  static Described<Config> read(ConfigFile& file, const TensorList& tensors) {
    read_common(file, false);
    const std::string type = file.text("model_type");
    const bool qwen2 = type == "qwen2", mistral = type == "mistral";
    file.only("use_mrope", {false});
    const Index layers = tensors.layers(file, "num_hidden_layers"), heads = tensors.size(file, "num_attention_heads");
    const Index max_positions = file.integer("max_position_embeddings", 1, most_tokens);
    file.only("hidden_act", {"silu", "swish"});
    Config config{.max_positions = max_positions,
                  .layers = layers,
                  .block = {.width = tensors.size(file, "hidden_size"),
                            .hidden = tensors.size(file, "intermediate_size"),
                            .heads = heads,
                            .dropout = 0}};
    auto& attention = config.block.attention;
    attention.kv_heads = tensors.size(file, "num_key_value_heads", heads);
    attention.bias = qwen2;
    config.block.residual.norm.epsilon = file.positive("rms_norm_eps", 1e-6);
    if constexpr (qwen3) {
      attention.head_width = tensors.size(file, "head_dim", 128);
      attention.per_head.norm.epsilon = config.block.residual.norm.epsilon;
    } else if (file.has("head_dim")) {
      attention.head_width = tensors.size(file, "head_dim");
    }
    file.ignore("head_dim");
    if (qwen3 || type == "llama") attention.bias = file.flag("attention_bias", false);
    if (qwen2) attention.output_bias = false;
    config.block.feed_forward.bias = type == "llama" && file.flag("mlp_bias", false);
    config.vocabulary = tensors.size(file, "vocab_size");
    config.position = read_rope(file, max_positions);
    config.tied = file.flag("tie_word_embeddings", false);
    if (mistral)
      attention.window = file.mentions("sliding_window") ? file.integer("sliding_window", 1, most_tokens, 0)
                                                         : 4096;  // as transformers does
    if (qwen2 || qwen3) set_windows(config, file);
    return {config, read_facts(file, max_positions)};
  }

  template <Real T>
  static nlohmann::json write(const Model<T>& model, const PretrainedFacts& facts) {
    const auto& config = model.config;
    ensure(config.layers > 0, "pretrained", "a model without layers cannot be saved in this format");
    ensure(facts.max_positions > 0, "pretrained", "facts.max_positions must say for how many tokens the model is made");
    const auto stack = config.stack();
    const auto& block = stack.layer(0);
    const auto& attention = block.attention;
    std::vector<Index> windows;
    for (Index i = 0; i < config.layers; ++i) windows.push_back(stack.layer(i).attention.window);
    const bool windowed = std::any_of(windows.begin(), windows.end(), [](Index window) { return window > 0; });
    const bool qwen2 = attention.bias && !*attention.output_bias, mistral = windowed && !qwen2;
    nlohmann::json json = qwen3     ? write_common<T>("qwen3", "Qwen3ForCausalLM", facts)
                          : qwen2   ? write_common<T>("qwen2", "Qwen2ForCausalLM", facts)
                          : mistral ? write_common<T>("mistral", "MistralForCausalLM", facts)
                                    : write_common<T>("llama", "LlamaForCausalLM", facts);
    json.update({{"vocab_size", config.vocabulary},
                 {"hidden_size", block.width},
                 {"intermediate_size", block.hidden},
                 {"num_hidden_layers", config.layers},
                 {"num_attention_heads", block.heads},
                 {"num_key_value_heads", attention.kv_heads},
                 {"hidden_act", "silu"},
                 {"rms_norm_eps", block.residual.norm.epsilon},
                 {"max_position_embeddings", facts.max_positions},
                 {"tie_word_embeddings", config.tied}});
    if (qwen3 || attention.head_width * block.heads != block.width) json["head_dim"] = attention.head_width;
    if (qwen3 || (!qwen2 && !mistral)) json["attention_bias"] = attention.bias;
    if (!qwen3 && !qwen2 && !mistral) json["mlp_bias"] = block.feed_forward.bias;
    if (mistral && !qwen3) json["sliding_window"] = attention.window;
    if (qwen2 || qwen3) {
      json["use_sliding_window"] = windowed;
      json["layer_types"] = nlohmann::json::array();
      for (const Index window : windows) {
        json["layer_types"].push_back(window > 0 ? "sliding_attention" : "full_attention");
        if (window > 0) json["sliding_window"] = window;
      }
    }
    write_rope(json, config.position, facts.max_positions);
    return json;
  }

  /// For rows of q and k: which of ours is the i-th of theirs.
  template <Real T>
  static std::function<Index(Index)> permute(const Model<T>& model, const std::string& path) {
    if (model.config.position.layout == RotaryLayout::halves) return nullptr;
    ensure(!qwen3, "pretrained", "interleaved rotary positions cannot be saved in this format");
    if (path.find(".attention.query.") == std::string::npos && path.find(".attention.key.") == std::string::npos)
      return nullptr;
    return [width = model.config.position.head_width](Index row) {
      const Index within = row % width, half = width / 2;
      return row - within + (within < half ? 2 * within : 2 * (within - half) + 1);
    };
  }

 private:
  static constexpr bool qwen3 = Traits::head_norms;

  /// To the layers that have one: those that layer_types names, or all from max_window_layers on.
  static void set_windows(auto& config, ConfigFile& file) {
    const Index layers = config.layers;
    const bool used = file.flag("use_sliding_window", false);
    const Index window = file.integer("sliding_window", 1, most_tokens, 4096),
                from = file.integer("max_window_layers", 0, most_tokens, 28);
    if (used && file.mentions("sliding_window") && !file.has("sliding_window"))
      file.refuse("sliding_window", "is null, but use_sliding_window is true");
    std::vector<bool> which;
    if (file.has("layer_types")) {
      for (const std::string& type : file.texts("layer_types")) {
        if (type != "full_attention" && type != "sliding_attention")
          file.refuse("layer_types", "contains ", in_quotes(type),
                      ", but only full_attention and sliding_attention are supported");
        which.push_back(type == "sliding_attention");
        if (which.back() && !used)
          file.refuse("layer_types", "contains sliding_attention, but use_sliding_window is false");
      }
      if (static_cast<Index>(which.size()) != layers)
        file.refuse("layer_types", "has ", which.size(), " entries, but there are ", layers, " layers");
    } else {
      for (Index i = 0; i < layers; ++i) which.push_back(used && i >= from);
    }
    if (std::none_of(which.begin(), which.end(), [](bool windowed) { return windowed; })) return;
    config.each_layer.assign(which.size(), config.block);
    for (std::size_t i = 0; i < which.size(); ++i)
      if (which[i]) config.each_layer[i].attention.window = window;
  }
};

}  // namespace eigenformer::detail
