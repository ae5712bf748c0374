// What lies beside a vocabulary in a folder of Hugging Face and decides the ids: config.json, tokenizer_config.json,
// special_tokens_map.json, added_tokens.json. Read as transformers 5 does where they disagree.
#pragma once

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "eigenformer/core/open_file.hpp"
#include "eigenformer/core/scalar.hpp"
#include "eigenformer/text/added_pieces.hpp"
#include "eigenformer/text/json_value.hpp"

namespace eigenformer::inline EIGENFORMER_ABI::detail {

/// A tokenizer.json's list of parts within a part. Their number bounds how deep one can lie in another.
class Sequences {
 public:
  std::vector<JsonValue> parts(const JsonValue& sequence, const char* key) {
    sequence.only({"type", key});
    sequence.validate(++count_ <= 100, "there are more than 100 Sequences");
    return sequence[key].list();
  }

 private:
  int count_ = 0;
};

/// What a tokenizer.json's post_processor puts around a text.
class PostProcessor {
 public:
  explicit PostProcessor(const JsonValue& value) {
    if (!value.null()) read(value);
  }

  std::vector<Id> front, back;

 private:
  void read(const JsonValue& marks) {
    const std::string& type = marks["type"].text();
    if (type == "Sequence") {
      for (const JsonValue& part : sequences_.parts(marks, "processors")) read(part);
    } else if (type == "RobertaProcessing" || type == "BertProcessing") {
      marks.only(
          {"type", "sep", "cls", "trim_offsets", "add_prefix_space"});  // the last two are about places in the text
      put({mark(marks["cls"])}, {mark(marks["sep"])});
    } else if (type == "TemplateProcessing") {
      marks.only({"type", "single", "pair", "special_tokens"});
      read_template(marks);
    } else {
      marks["type"].validate(
          type == "ByteLevel",
          "only Sequence, ByteLevel, TemplateProcessing, RobertaProcessing and BertProcessing are understood");
    }
  }

  static Id mark(const JsonValue& mark) {
    const std::vector<JsonValue> parts = mark.list();
    mark.validate(parts.size() == 2, "it must be a piece and its id");
    return parts[1].id();
  }

  void read_template(const JsonValue& marks) {
    bool text_seen = false;
    std::vector<Id> before, after;
    for (const JsonValue& part : marks["single"].list()) {
      if (!part["Sequence"].null()) {
        part["Sequence"]["id"].validate(part["Sequence"]["id"].text() == "A" && !text_seen, "the text must occur once");
        text_seen = true;
        continue;
      }
      const std::string& name = part["SpecialToken"]["id"].text();
      const JsonValue ids = marks["special_tokens"][name]["ids"];
      for (const JsonValue& id : ids.list()) (text_seen ? after : before).push_back(id.id());
    }
    marks["single"].validate(text_seen, "the text must occur once");
    put(before, after);
  }

  /// Later processors put their marks outside of those of earlier ones.
  void put(const std::vector<Id>& before, const std::vector<Id>& after) {
    front.insert(front.begin(), before.begin(), before.end());
    back.insert(back.end(), after.begin(), after.end());
  }

  Sequences sequences_;
};

/// One of added_tokens, or of the other files' tokens that are objects.
inline AddedPiece read_added_piece(const JsonValue& token, std::optional<Id> id) {
  token.only({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special", "__type"});
  token["single_word"].validate(!token["single_word"].truth(false), "words around it are not looked at");
  token["content"].validate(!token["content"].text().empty(), "it must not be empty");
  const bool special = token["special"].truth(false);
  return {token["content"].text(),     id, special, token["normalized"].truth(!special), token["lstrip"].truth(false),
          token["rstrip"].truth(false)};
}

/// All of a tokenizer.json.
inline void read_added_pieces(const JsonValue& file, std::vector<AddedPiece>& pieces) {
  const JsonValue added = file["added_tokens"];
  if (added.null()) return;
  for (const JsonValue& token : added.list()) {
    pieces.push_back(read_added_piece(token, {}));
    pieces.back().id = token["id"].id();
  }
}

struct TokenizerSettings {
  bool found = false;                   // there is at least one of the files
  std::string kind;                     // transformers' class, without "Fast"; empty if nothing tells
  bool names_kind = false;              // tokenizer_config.json does
  std::optional<std::string> bos, eos;  // pieces that mark a text
  bool no_bos = false, no_eos = false;  // said to have none
  std::optional<bool> add_bos, add_eos, prefix_space, legacy;  // as the files say
  std::optional<Id> extra_ids;                                 // T5's sentinels
  std::vector<AddedPiece> added;                               // those without an id in the order in which they get one
};

/// The class that transformers uses for a folder whose tokenizer_config.json names none.
inline std::string_view kind_of_model(std::string_view type) {
  struct Kind {
    std::string_view kind;
    std::vector<std::string_view> types;
  };
  static const std::vector<Kind> kinds{
      {"GPT2Tokenizer", {"codegen", "gpt2", "gpt_bigcode", "gpt_neo", "gptj", "opt", "phi", "starcoder2"}},
      {"GPTNeoXTokenizer",
       {"falcon_mamba", "gpt_neox", "mamba", "mamba2", "mpt", "olmo", "olmo2", "olmoe", "rwkv", "stablelm"}},
      {"Qwen2Tokenizer",
       {"qwen2", "qwen2_5_omni", "qwen2_5_vl", "qwen2_audio", "qwen2_moe", "qwen2_vl", "qwen3", "qwen3_moe",
        "qwen3_next", "qwen3_omni_moe", "qwen3_vl", "qwen3_vl_moe"}},
      {"Qwen3_5Tokenizer", {"qwen3_5", "qwen3_5_moe"}},
      {"CohereTokenizer", {"cohere", "cohere2"}},
      {"RobertaTokenizer", {"bart", "led", "longformer", "mvp", "roberta", "roberta-prelayernorm"}},
      {"LlamaTokenizer", {"llama"}},
      {"T5Tokenizer", {"mt5", "switch_transformers", "t5", "umt5"}},
      {"MarianTokenizer", {"marian"}},
      {"AlbertTokenizer", {"albert"}},
      {"CLIPTokenizer", {"clip"}},
      {"PegasusTokenizer", {"bigbird_pegasus", "pegasus", "pegasus_x"}},
      {"WhisperTokenizer", {"whisper"}},
      {"XLNetTokenizer", {"xlnet"}}};
  for (const auto& [kind, types] : kinds)
    if (std::find(types.begin(), types.end(), type) != types.end()) return kind;
  return {};
}

class SettingsReader {
 public:
  explicit SettingsReader(const std::filesystem::path& folder)
      : config_(open(folder / "config.json")), tokenizer_(open(folder / "tokenizer_config.json")),
        map_(open(folder / "special_tokens_map.json")), pieces_(open(folder / "added_tokens.json")) {}

  TokenizerSettings read() {
    settings_.found = config_ || tokenizer_ || map_ || pieces_;
    read_kind();
    const auto truth = [&](const char* key, std::optional<bool>& setting) {
      if (const JsonValue found = value(tokenizer_, key); !found.null()) setting = found.truth();
    };
    truth("add_bos_token", settings_.add_bos);
    truth("add_eos_token", settings_.add_eos);
    truth("add_prefix_space", settings_.prefix_space);
    truth("legacy", settings_.legacy);
    if (const JsonValue extra = value(tokenizer_, "extra_ids"); !extra.null()) {
      extra.validate(extra.id() <= 10'000, "there are too many");
      settings_.extra_ids = extra.id();
    }
    read_added();
    read_mark("bos_token", settings_.bos, settings_.no_bos);
    read_mark("eos_token", settings_.eos, settings_.no_eos);
    for (const char* const key : {"unk_token", "sep_token", "pad_token", "cls_token", "mask_token"})
      add_special(find(key));
    for (const File* const file : {&tokenizer_, &map_})
      if (*file && (file != &map_ || map_counts())) add_others((*file)->value());
    for (const char* const key : {"additional_special_tokens", "extra_special_tokens"}) {
      const JsonValue named = find(key);
      if (named.is_list())
        for (const JsonValue& piece : named.list()) add_special(piece);
      else if (!named.null()) named.each([&](const std::string&, const JsonValue& piece) { add_special(piece); });
    }
    return std::move(settings_);
  }

 private:
  using File = std::optional<JsonFile>;

  static File open(const std::filesystem::path& path) { return is_missing(path) ? File() : File(std::in_place, path); }

  static JsonValue value(const File& file, const char* key) {
    static const nlohmann::json none;
    static const std::string nowhere;
    return file ? file->value()[key] : JsonValue(none, nowhere, key);
  }

  static bool has(const File& file, const char* key) {
    bool found = false;
    if (file) file->value().each([&](const std::string& name, const JsonValue&) { found = found || name == key; });
    return found;
  }

  /// special_tokens_map.json wins, unless tokenizer_config.json lists all that is added.
  bool map_counts() const { return map_ && value(tokenizer_, "added_tokens_decoder").null(); }
  JsonValue find(const char* key) const {
    return map_counts() && has(map_, key) ? value(map_, key) : value(tokenizer_, key);
  }

  void read_kind() {
    const JsonValue type = value(config_, "model_type"), of_tokenizer = value(tokenizer_, "tokenizer_class"),
                    of_model = value(config_, "tokenizer_class");
    std::string& kind = settings_.kind;
    settings_.names_kind = !of_tokenizer.null();
    if (settings_.names_kind) kind = of_tokenizer.text();
    else if (!of_model.null()) kind = of_model.text();
    if (kind.ends_with("Fast")) kind.resize(kind.size() - 4);
    if (kind == "PreTrainedTokenizer" || kind == "TokenizersBackend") kind.clear();  // any
    const std::string_view known = type.is_text() ? kind_of_model(type.text()) : std::string_view();
    if (kind.empty() || known == "Qwen2Tokenizer") kind = known;  // Qwen's are published with wrong ones
  }

  void read_added() {
    const JsonValue decoder = value(tokenizer_, "added_tokens_decoder");
    if (!decoder.null()) {
      decoder.each([&](const std::string& key, const JsonValue& token) {
        Id id = 0;
        const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
        token.validate(error == std::errc() && end == key.data() + key.size() && id >= 0, "its key must be an id");
        settings_.added.push_back(read_added_piece(token, id));
      });
    } else if (pieces_) {
      pieces_->value().each([&](const std::string& text, const JsonValue& id) {
        id.validate(!text.empty(), "it must not be empty");
        settings_.added.push_back({.text = text, .id = id.id(), .normalized = true});
      });
    }
    std::sort(settings_.added.begin(), settings_.added.end(),
              [](const AddedPiece& a, const AddedPiece& b) { return *a.id < *b.id; });
  }

  static const std::string& text_of(const JsonValue& named) {
    return named.is_text() ? named.text() : named["content"].text();
  }

  /// bos or eos. It must be in the vocabulary, or added by another key.
  void read_mark(const char* key, std::optional<std::string>& mark, bool& none) {
    const JsonValue named = find(key);
    if (!named.null() && !text_of(named).empty()) mark = text_of(named);
    else none = has(tokenizer_, key) || has(map_, key);
  }

  void add_special(const JsonValue& named) {
    if (named.null() || text_of(named).empty()) return;
    const auto same = [&](const AddedPiece& other) { return other.text == text_of(named); };
    const auto found = std::find_if(settings_.added.begin(), settings_.added.end(), same);
    if (found != settings_.added.end()) {
      found->special = true, found->normalized = false;
      return;
    }
    settings_.added.push_back({.text = text_of(named), .special = true});
    if (named.is_text()) return;
    settings_.added.back() = read_added_piece(named, {});
    settings_.added.back().special = true;
    settings_.added.back().normalized = named["normalized"].truth(false);
  }

  /// Of models with pictures and the like: image_token and whatever else ends so.
  void add_others(const JsonValue& file) {
    file.each([&](const std::string& key, const JsonValue& named) {
      if (key.ends_with("_token") && key != "bos_token" && key != "eos_token" && (named.is_text() || named.is_object()))
        add_special(named);
    });
  }

  File config_, tokenizer_, map_, pieces_;
  TokenizerSettings settings_;
};

}  // namespace eigenformer::detail
