// What lies in a folder that a model is saved to: afterwards it describes this model alone.
#pragma once

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "eigenformer/core/error.hpp"
#include "eigenformer/io/replace_file.hpp"
#include "eigenformer/pretrained/checkpoint_files.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

struct PretrainedSaveOptions {
  /// A folder whose tokenizer is copied, in the place of one that is there. None: that one stays.
  std::filesystem::path tokenizer{};
};

namespace detail {

inline constexpr std::string_view tokenizer_files[] = {"tokenizer.json",
                                                       "tokenizer_config.json",
                                                       "special_tokens_map.json",
                                                       "added_tokens.json",
                                                       "vocab.json",
                                                       "merges.txt",
                                                       "vocab.txt",
                                                       "tokenizer.model",
                                                       "spiece.model",
                                                       "source.spm",
                                                       "target.spm",
                                                       "sentencepiece.bpe.model",
                                                       "target_vocab.json",
                                                       "tokenizer.bin",
                                                       "chat_template.jinja",
                                                       "chat_template.json"};
/// What other programs may load in the place of model.safetensors, or on top of it, or how they take its weights.
inline constexpr std::string_view foreign_files[] = {
    "model.*.safetensors",       "pytorch_model*.bin",  "pytorch_model*.bin.index.json", "tf_model*.h5",
    "tf_model*.h5.index.json",   "flax_model*.msgpack", "adapter_config.json",           "adapter_model.*",
    "consolidated*.safetensors", "consolidated*.pth",   "quantize_config.json",          "quant_config.json",
    "hf_quant_config.json"};

/// Parts of an earlier save: some programs go by the index, or read all that there is.
inline bool is_stale(std::string_view name) {
  constexpr std::string_view shard = "model-#####-of-#####.safetensors";
  const bool is_shard = std::equal(name.begin(), name.end(), shard.begin(), shard.end(),
                                   [](char c, char want) { return want == '#' ? c >= '0' && c <= '9' : c == want; });
  return is_shard || name == "model.safetensors.index.json";
}

inline bool is_of_tokenizer(std::string_view name) {
  return std::find(std::begin(tokenizer_files), std::end(tokenizer_files), name) != std::end(tokenizer_files);
}

/// The names in a folder of which f(name) holds, in order; none if there is no folder.
template <class F>
std::vector<std::string> names_in(const std::filesystem::path& folder, F&& f) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator file(folder, error), end; !error && file != end; file.increment(error))
    if (const std::string name = file->path().filename().string(); f(name)) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

/// Copies the tokenizer of a folder to another one. Throws, before anything is written, if it has none, or if there is
/// another one in the other folder; without `write` it does no more.
inline void copy_tokenizer(const std::filesystem::path& source, const std::filesystem::path& folder, bool write) {
  std::error_code ignored;
  if (std::filesystem::equivalent(source, folder, ignored)) return;
  const std::vector<std::string> names = names_in(source, is_of_tokenizer);
  ensure(!names.empty(), "pretrained", source.string(), ": is not a folder with a tokenizer");
  for (const std::string& name : names) {
    const std::string content = read_text(source / name, 1000);
    const std::filesystem::path to = folder / name;
    if (!is_missing(to)) {
      ensure(read_text(to, 1000) == content, "pretrained", to.string(),
             ": is of another model's tokenizer: save to another folder");
    } else if (write) {
      replace_text_file("pretrained", to, content);
    }
  }
}

class SavedFolder {
 public:
  /// Throws if what would stay in the folder contradicts a model of this vocabulary, or if there is no tokenizer to
  /// copy. Nothing is changed yet.
  SavedFolder(const std::filesystem::path& folder, const PretrainedSaveOptions& options, Index vocabulary)
      : folder_(folder) {
    const auto is_foreign = [](std::string_view name) {
      return std::any_of(std::begin(foreign_files), std::end(foreign_files),
                         [=](std::string_view pattern) { return matches(pattern, name); });
    };
    for (const std::string& name : names_in(folder_, is_foreign))
      fail("pretrained", (folder_ / name).string(),
           ": is not of this model, but other programs would load it: remove it, or save to another folder");
    const std::vector<std::string> old = names_in(folder_, is_of_tokenizer);
    const std::filesystem::path& source = options.tokenizer;
    if (source.empty()) {
      if (!old.empty()) check_vocabulary(old[0], vocabulary);
      return;
    }
    const std::vector<std::string> names = names_in(source, is_of_tokenizer);
    ensure(!names.empty(), "pretrained", source.string(), ": is not a folder with a tokenizer");
    std::error_code ignored;
    if (std::filesystem::equivalent(source, folder_, ignored)) return;  // it is there
    for (const std::string& name : names) tokenizer_.emplace_back(name, read_text(source / name, 1000));
    std::set_difference(old.begin(), old.end(), names.begin(), names.end(), std::back_inserter(stale_));
  }

  /// Writes the tokenizer, then removes what an earlier save has left.
  void finish() {
    for (const auto& [name, content] : tokenizer_) replace_text_file("pretrained", folder_ / name, content);
    for (const std::string& name : names_in(folder_, is_stale)) stale_.push_back(name);
    for (const std::string& name : stale_) {
      std::error_code error;
      std::filesystem::remove(folder_ / name, error);
      ensure(!error, "pretrained", (folder_ / name).string(),
             ": is not of this model, and cannot be removed: ", error.message());
    }
  }

 private:
  /// Throws if the model that is there now has other tokens.
  void check_vocabulary(const std::string& tokenizer, Index vocabulary) const {
    const std::filesystem::path config = folder_ / "config.json";
    std::error_code ignored;
    if (!std::filesystem::exists(config, ignored)) return;
    const auto json = nlohmann::json::parse(read_text(config, 16), nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || !json.contains("vocab_size") || json["vocab_size"] == vocabulary) return;
    fail("pretrained", (folder_ / tokenizer).string(), ": is the tokenizer of a model of ", json["vocab_size"].dump(),
         " tokens, this one has ", vocabulary, ": name its own in the options, or save to another folder");
  }

  std::filesystem::path folder_;
  std::vector<std::pair<std::string, std::string>> tokenizer_;  // names and contents
  std::vector<std::string> stale_;                              // names of what goes
};

}  // namespace detail
}  // namespace eigenformer
