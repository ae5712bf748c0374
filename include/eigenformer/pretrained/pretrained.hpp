// What every family of checkpoints has in common: what is loaded, options, and keys that change nothing.
#pragma once

#include <charconv>
#include <cstddef>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include "eigenformer/core/config.hpp"
#include "eigenformer/core/format.hpp"
#include "eigenformer/core/threads.hpp"
#include "eigenformer/io/config.hpp"
#include "eigenformer/op/weight.hpp"
#include "eigenformer/pretrained/checkpoint_files.hpp"
#include "eigenformer/pretrained/name_table.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

/// What a checkpoint says besides its weights: what is needed to generate text.
struct PretrainedFacts {
  std::optional<Id> bos{}, pad{}, decoder_start{};  ///< special tokens
  std::vector<Id> eos{};                            ///< any of them ends a sequence
  Index max_positions = 0;                          ///< tokens that the model is made for; 0: not said
  std::vector<std::string> warnings{};  ///< what else the folder says that decides the text, and nothing here carries:
                                        ///< `folder/config.json: key "forced_bos_token_id" is 0`

  static void fields(auto&& f, auto&... c) {
    f("bos", c.bos...);
    f("pad", c.pad...);
    f("decoder_start", c.decoder_start...);
    f("eos", c.eos...);
    f("max_positions", c.max_positions...);
    f("warnings", c.warnings...);
  }
};

template <class Model_>
struct Pretrained {
  using Model = Model_;

  Model model;
  PretrainedFacts facts{};
};

struct PretrainedOptions {
  std::vector<std::string> ignored_keys{};  ///< keys of config.json, and of the objects in it, of which you know that
                                            ///< they do not change the mathematics, whatever their values
  bool allow_extra = false;                 ///< ignore tensors that the model does not have
  /// Each matrix is packed in this format as it is read, and its values are dropped: memory is that of the packed model
  /// and of the largest matrix at most. See pack().
  Format format = Format::scalar;
  Index group = 0;                                                            ///< as PackConfig's,
  std::function<std::optional<Format>(const std::string& path)> format_of{};  ///< likewise
  Threads threads{};                                                          ///< that pack
};

namespace detail {

/// Reads all weights of a model from where they were found, and packs them if that is asked for.
template <class File, class Model>
void read_model(File& file, Model& model, const std::vector<Source>& sources, const PretrainedOptions& options) {
  std::map<const void*, PackStep> steps;
  if (options.format != Format::scalar || options.format_of)
    for (auto& step : pack_steps(
             options.threads, model,
             {.format = options.format, .group = options.group, .keep_values = false, .format_of = options.format_of}))
      steps.emplace(step.values, std::move(step));
  read_slots(file, slots_of(model), sources, [&](const auto& slot) {
    const auto found = steps.find(slot.data);
    if (found == steps.end()) return;
    found->second.fit();
    found->second.pack();
  });
}

/// The config of a model as read from config.json.
template <class Config>
struct Described {
  Config config{};
  PretrainedFacts facts{};
};

/// Keys that concern training, bookkeeping or speed: neither logits nor texts depend on them.
inline constexpr std::string_view harmless_keys[] = {
    "architectures", "model_type", "torch_dtype", "dtype", "transformers_version", "_name_or_path", "_commit_hash",
    "use_cache", "initializer_range", "initializer_factor", "init_std", "id2label", "label2id", "num_labels",
    "_num_labels", "problem_type", "finetuning_task", "return_dict", "output_attentions", "output_hidden_states",
    "output_past", "torchscript", "gradient_checkpointing", "tokenizer_class", "sep_token_id", "unk_token_id",
    "tf_legacy_loss", "use_bfloat16", "chunk_size_feed_forward", "pretraining_tp", "attention_dropout",
    "attention_probs_dropout_prob", "activation_dropout", "attn_pdrop", "embd_pdrop", "classifier_dropout",
    "classif_dropout", "encoder_layerdrop", "decoder_layerdrop", "_attn_implementation", "_attn_implementation_autoset",
    "attn_implementation", "save_step", "transformers.js_config", "max_sequence_length", "unsloth_fixed",
    "unsloth_version",
    // of generation_config.json
    "_from_model_config", "output_scores", "output_logits", "return_dict_in_generate", "return_legacy_cache",
    "cache_implementation", "cache_config", "compile_config", "disable_compile", "low_memory", "prefill_chunk_size",
    "use_model_defaults"};

/// Settings that decide the text, with their values where they change nothing. Null: any value changes something.
inline const nlohmann::json& text_settings() {
  static const nlohmann::json settings = nlohmann::json::parse(R"({
      "max_length": 20, "max_new_tokens": null, "min_length": 0, "min_new_tokens": 0, "max_time": null,
      "stop_strings": null, "early_stopping": false, "do_sample": false, "num_beams": 1, "num_beam_groups": 1,
      "diversity_penalty": 0, "num_return_sequences": 1, "temperature": 1, "top_k": 0, "top_p": 1, "min_p": 0,
      "top_h": null, "typical_p": 1, "epsilon_cutoff": 0, "eta_cutoff": 0, "repetition_penalty": 1,
      "encoder_repetition_penalty": 1, "length_penalty": 1, "exponential_decay_length_penalty": null,
      "no_repeat_ngram_size": 0, "encoder_no_repeat_ngram_size": 0, "penalty_alpha": null, "guidance_scale": 1,
      "dola_layers": null, "bad_words_ids": null, "force_words_ids": null, "constraints": null, "sequence_bias": null,
      "suppress_tokens": null, "begin_suppress_tokens": null, "forced_bos_token_id": null, "forced_eos_token_id":
      null, "forced_decoder_ids": null, "force_bos_token_to_be_generated": false, "remove_invalid_values": false,
      "renormalize_logits": false, "token_healing": false, "watermarking_config": null, "prefix": "",
      "task_specific_params": null})");
  return settings;
}

/// What every config may say, and must not say otherwise. `causal`: the model is a decoder, or has one, whatever
/// is_decoder says.
inline void read_common(ConfigFile& file, bool encoder_decoder, bool causal = true) {
  file.ignore_all(harmless_keys);
  for (const auto& setting : text_settings().items()) file.ignore(setting.key());
  file.only("is_encoder_decoder", {encoder_decoder});
  for (const char* key : {"add_cross_attention", "tie_encoder_decoder"}) file.only(key, {false});
  if (causal) file.flag("is_decoder", true);
  else file.only("is_decoder", {false});
  file.only("pruned_heads", {nlohmann::json::object()});
}

/// The major version of transformers that wrote the file; none if it does not say.
inline std::optional<int> major_version(ConfigFile& file) {
  const std::string text = file.text("transformers_version", "");
  int major = 0;
  const bool number = std::from_chars(text.data(), text.data() + text.size(), major).ec == std::errc();
  return number ? std::optional(major) : std::nullopt;
}

inline PretrainedFacts read_facts(ConfigFile& file, Index max_positions) {
  return {file.id("bos_token_id"),  file.id("pad_token_id"), file.id("decoder_start_token_id"),
          file.ids("eos_token_id"), max_positions,           {}};
}

/// What generation_config.json says about tokens comes before config.json.
inline void update_facts(PretrainedFacts& facts, ConfigFile& generation) {
  const PretrainedFacts newer = read_facts(generation, facts.max_positions);
  if (newer.bos) facts.bos = newer.bos;
  if (newer.pad) facts.pad = newer.pad;
  if (newer.decoder_start) facts.decoder_start = newer.decoder_start;
  if (!newer.eos.empty()) facts.eos = newer.eos;
}

/// Notes by their keys the settings that decide the text, and what nobody has asked for; they come before what a file
/// said earlier.
inline void note_settings(std::map<std::string, std::string>& notes, const ConfigFile& file) {
  constexpr std::size_t longest = 100;
  file.for_each_key([&](const std::string& key, const nlohmann::json& value) {
    const auto setting = text_settings().find(key);
    if (setting == text_settings().end() && file.used(key)) return;
    notes.erase(key);
    if (value.empty() || (setting != text_settings().end() && value == *setting) || file.trusts(key)) return;
    const std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true);
    notes[key] = concatenate(file.name(), ": key ", in_quotes(key), " is ",
                             text.size() > longest ? ConfigFile::text_of(value) : text);
  });
}

/// The largest length that may be said.
inline constexpr Index most_tokens = (std::numeric_limits<Id>::max)();

template <class T>
nlohmann::json write_common(std::string_view type, std::string_view architecture, const PretrainedFacts& facts) {
  nlohmann::json json{
      {"model_type", type}, {"architectures", {architecture}}, {"torch_dtype", sizeof(T) == 4 ? "float32" : "float64"}};
  // Null, where transformers would otherwise put the ids of another vocabulary.
  const auto id = [&](const char* key, const std::optional<Id>& value) {
    json[key] = value ? nlohmann::json(*value) : nlohmann::json();
  };
  id("bos_token_id", facts.bos);
  id("pad_token_id", facts.pad);
  if (facts.decoder_start) json["decoder_start_token_id"] = *facts.decoder_start;
  json["eos_token_id"] = facts.eos.empty()       ? nlohmann::json()
                         : facts.eos.size() == 1 ? nlohmann::json(facts.eos[0])
                                                 : nlohmann::json(facts.eos);
  return json;
}

/// What generation_config.json repeats of a config.
inline nlohmann::json tokens_of(const nlohmann::json& config) {
  nlohmann::json tokens;
  for (const char* key : {"bos_token_id", "pad_token_id", "eos_token_id", "decoder_start_token_id"})
    if (config.contains(key)) tokens[key] = config[key];
  return tokens;
}

/// The numbers of a model, to compare what was saved with what will be loaded. Rows are saved in either order.
template <class Config>
Config comparable(Config config) {
  if constexpr (requires { config.position.scaling; }) config.position.layout = {};
  return numbers_of(config);
}

}  // namespace detail
}  // namespace eigenformer
