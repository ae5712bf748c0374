// What every family of checkpoints has in common: what is loaded, options, keys that change nothing, and numbers of models.
#pragma once

#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "eigenformer/block/residual.hpp"
#include "eigenformer/layer/position/rotary.hpp"
#include "eigenformer/layer/position/sinusoidal.hpp"
#include "eigenformer/pretrained/checkpoint_files.hpp"
#include "eigenformer/pretrained/name_table.hpp"

namespace eigenformer {

/// What a checkpoint says besides its weights: what is needed to generate text.
struct PretrainedFacts {
  std::optional<Id> begin{}, pad{}, decoder_begin{};  ///< special tokens
  std::vector<Id> ends{};                             ///< any of them ends a sequence
  Index longest = 0;                                  ///< tokens that the model is made for; 0: not said
};

template <class Model_>
struct Pretrained {
  using Model = Model_;

  Model model;
  PretrainedFacts facts{};
};

struct PretrainedOptions {
  std::vector<std::string> ignored_keys{};  ///< keys of config.json of which you know that they do not change the mathematics
  bool allow_extra = false;                 ///< ignore tensors that the model does not have
};

namespace detail {

/// The config of a model as read from config.json.
template <class Config>
struct Described {
  Config config{};
  PretrainedFacts facts{};
};

/// Keys that concern training, generation or bookkeeping: the logits do not depend on them.
inline constexpr std::string_view harmless_keys[] = {
    "architectures", "model_type", "torch_dtype", "dtype", "transformers_version", "_name_or_path", "_commit_hash", "use_cache",
    "initializer_range", "initializer_factor", "init_std", "id2label", "label2id", "num_labels", "_num_labels", "problem_type",
    "finetuning_task", "return_dict", "output_attentions", "output_hidden_states", "output_past", "torchscript", "gradient_checkpointing",
    "task_specific_params", "tokenizer_class", "sep_token_id", "unk_token_id", "tf_legacy_loss", "use_bfloat16", "chunk_size_feed_forward",
    "pretraining_tp", "attention_dropout", "attention_probs_dropout_prob", "activation_dropout", "attn_pdrop", "embd_pdrop",
    "classifier_dropout", "classif_dropout", "encoder_layerdrop", "decoder_layerdrop", "_attn_implementation",
    "_attn_implementation_autoset", "attn_implementation",
    // generation
    "max_length", "min_length", "max_new_tokens", "do_sample", "early_stopping", "num_beams", "num_beam_groups", "diversity_penalty",
    "temperature", "top_k", "top_p", "typical_p", "repetition_penalty", "length_penalty", "no_repeat_ngram_size",
    "encoder_no_repeat_ngram_size", "bad_words_ids", "num_return_sequences", "output_scores", "return_dict_in_generate",
    "forced_bos_token_id", "forced_eos_token_id", "save_step", "force_bos_token_to_be_generated", "remove_invalid_values",
    "exponential_decay_length_penalty", "suppress_tokens", "begin_suppress_tokens", "prefix", "transformers.js_config"};

/// What every config may say, and must not say otherwise.
inline void read_common(ConfigFile& file, bool encoder_decoder) {
  file.ignore_all(harmless_keys);
  file.only("is_encoder_decoder", {encoder_decoder});
  for (const char* key : {"add_cross_attention", "tie_encoder_decoder"}) file.only(key, {false});
  file.only("is_decoder", {false});
  file.only("pruned_heads", {nlohmann::json::object()});
}

inline PretrainedFacts read_facts(ConfigFile& file, Index longest) {
  return {file.id("bos_token_id"), file.id("pad_token_id"), file.id("decoder_start_token_id"), file.ids("eos_token_id"), longest};
}

/// What generation_config.json says about tokens comes before config.json; the rest of it is for samplers.
inline void update_facts(PretrainedFacts& facts, ConfigFile generation) {
  const PretrainedFacts newer = read_facts(generation, facts.longest);
  if (newer.begin) facts.begin = newer.begin;
  if (newer.pad) facts.pad = newer.pad;
  if (newer.decoder_begin) facts.decoder_begin = newer.decoder_begin;
  if (!newer.ends.empty()) facts.ends = newer.ends;
}

/// The largest length that may be said.
inline constexpr Index most_tokens = (std::numeric_limits<Id>::max)();

template <class T>
nlohmann::json write_common(std::string_view type, std::string_view architecture, const PretrainedFacts& facts) {
  nlohmann::json json{{"model_type", type}, {"architectures", {architecture}}, {"torch_dtype", sizeof(T) == 4 ? "float32" : "float64"}};
  // Null, where transformers would otherwise put the ids of another vocabulary.
  const auto id = [&](const char* key, const std::optional<Id>& value) { json[key] = value ? nlohmann::json(*value) : nlohmann::json(); };
  id("bos_token_id", facts.begin);
  id("pad_token_id", facts.pad);
  if (facts.decoder_begin) json["decoder_start_token_id"] = *facts.decoder_begin;
  json["eos_token_id"] = facts.ends.empty()       ? nlohmann::json()
                         : facts.ends.size() == 1 ? nlohmann::json(facts.ends[0])
                                                  : nlohmann::json(facts.ends);
  return json;
}

/// The sizes of a block, as its weights show them.
BlockConfig block_of(const auto& attention, const auto& norm, const auto& up) {
  BlockConfig config{.width = attention.query.weight.extent(1),
                     .hidden = up.weight.extent(0),
                     .heads = attention.query.weight.extent(0) / attention.head_width,
                     .head_width = attention.head_width,
                     .dropout = attention.dropout,
                     .key_heads = attention.key.weight.extent(0) / attention.head_width,
                     .attention_bias = attention.query.bias.data() != nullptr,
                     .output_bias = attention.output.bias.data() != nullptr,
                     .feed_forward_bias = up.bias.data() != nullptr,
                     .norm_epsilon = norm.epsilon,
                     .scale = attention.scale};
  if constexpr (requires { attention.window; }) config.window = attention.window;
  return config;
}

// Everything besides weights and dropout that a model's outputs depend on, to compare what was saved with what will be loaded.

void add_numbers_of(std::vector<double>& to, const auto& part);

void add_numbers(std::vector<double>& to, const auto& part) {
  if constexpr (requires { part.has_value(); }) {
    if (part) add_numbers(to, *part);
  } else {
    add_numbers_of(to, part);
  }
}

void add_numbers_of(std::vector<double>& to, const auto& part) {
  const auto add = [&](const auto& value) { to.push_back(static_cast<double>(value)); };
  if constexpr (requires { part.frequencies; }) {
    for (const Index tokens : {Index{0}, Index{1} << 40}) {  // scalings that look at the length do so in between
      const RotaryFrequencies frequencies(part.config, tokens);
      to.insert(to.end(), frequencies.values.begin(), frequencies.values.end());
      add(frequencies.attention_factor);
    }
    if (const auto* by = std::get_if<DynamicNtkScaling>(&part.config.scaling)) add(by->original), add(by->factor);
    if (const auto* by = std::get_if<LongScaling>(&part.config.scaling)) add(by->original);
  }
  if constexpr (requires { part.layout.inclusive; }) add(part.base), add(part.layout.halves), add(part.layout.inclusive);
  if constexpr (requires { part.buckets.furthest; }) add(part.buckets.count), add(part.buckets.furthest);
  if constexpr (requires { part.head_width; }) add(part.head_width);
  if constexpr (requires { part.scale; }) add(part.scale);
  if constexpr (requires { part.window; }) add(part.window);
  if constexpr (requires { part.epsilon; }) add(part.epsilon);
  if constexpr (requires { part.norm.epsilon; }) add(part.norm.epsilon);
  if constexpr (requires { part.heads.query_norm; }) add_numbers(to, part.heads.query_norm), add_numbers(to, part.heads.key_norm);
  if constexpr (requires { part.blocks; }) {
    for (const auto& block : part.blocks) {
      if constexpr (requires { block.cross_attention; }) {
        add_numbers(to, block.self_attention), add_numbers(to, block.cross_attention);
        add_numbers(to, block.self_attention_residual), add_numbers(to, block.cross_attention_residual);
      } else {
        add_numbers(to, block.attention), add_numbers(to, block.attention_residual);
      }
      add_numbers(to, block.feed_forward_residual);
    }
    add_numbers(to, part.norm);
  }
}

template <class Model>
std::vector<double> numbers_of(const Model& model) {
  std::vector<double> numbers;
  add_numbers(numbers, model.embedding);
  add_numbers(numbers, model.position);
  add_numbers(numbers, model.embedding_norm);
  if constexpr (requires { model.encoder; }) add_numbers(numbers, model.encoder);
  if constexpr (requires { model.decoder; }) add_numbers(numbers, model.decoder);
  if constexpr (requires { model.target_position; }) {
    add_numbers(numbers, model.target_embedding);
    add_numbers(numbers, model.target_position);
    add_numbers(numbers, model.target_embedding_norm);
  }
  if constexpr (requires { model.logit_cap; }) numbers.push_back(model.logit_cap);
  if constexpr (requires { model.logit_scale; }) numbers.push_back(model.logit_scale);
  return numbers;
}

}  // namespace detail
}  // namespace eigenformer
