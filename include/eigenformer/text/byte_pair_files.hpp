// What the files of a byte-level byte-pair tokenizer say: vocab.json with merges.txt, or tokenizer.json.
//
// A tokenizer.json can describe much more than we do. What would change the ids or the text and is not understood is
// an Error, with its key and value.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "eigenformer/core/error.hpp"
#include "eigenformer/core/scalar.hpp"
#include "eigenformer/text/split.hpp"
#include "eigenformer/text/utf8.hpp"
#include "eigenformer/text/vocabulary.hpp"

namespace eigenformer::detail {

/// A value within a file, with the way to it for errors.
class JsonValue {
 public:
  JsonValue(const nlohmann::json& value, const std::string& file, std::string key) : value_(&value), file_(&file), key_(std::move(key)) {}

  /// Null if absent.
  JsonValue operator[](const std::string& key) const {
    static const nlohmann::json none;
    const auto found = value_->find(key);
    return {value_->is_object() && found != value_->end() ? *found : none, *file_, below(key)};
  }

  bool null() const { return value_->is_null(); }
  bool is_text() const { return value_->is_string(); }
  bool is_list() const { return value_->is_array(); }

  const std::string& text() const {
    check(value_->is_string(), "it must be a string");
    return value_->get_ref<const std::string&>();
  }
  bool truth() const {
    check(value_->is_boolean(), "it must be true or false");
    return value_->get<bool>();
  }
  bool truth(bool otherwise) const { return null() ? otherwise : truth(); }
  Id id() const {
    check(value_->is_number_unsigned() && std::in_range<Id>(value_->get<std::uint64_t>()) && value_->get<Id>() < 0x7fffffff,
          "it must be a whole number from 0 to 2147483646");
    return value_->get<Id>();
  }
  std::vector<JsonValue> list() const {
    check(value_->is_array(), "it must be an array");
    std::vector<JsonValue> result;
    for (const nlohmann::json& element : *value_) result.push_back({element, *file_, below(std::to_string(result.size()))});
    return result;
  }
  template <class F>
  void each(F&& f) const {
    check(value_->is_object(), "it must be an object");
    for (const auto& [key, value] : value_->items()) f(key, JsonValue(value, *file_, below(shown(key))));
  }

  /// Refuses other keys.
  void only(std::initializer_list<std::string_view> keys) const {
    each([&](const std::string& key, const JsonValue& value) {
      bool known = false;
      for (const std::string_view allowed : keys) known = known || key == allowed;
      value.check(known, "this key is not understood");
    });
  }

  /// Fails unless `holds`, with the value and the reason.
  template <class... Parts>
  void check(bool holds, const Parts&... parts) const {
    if (!holds) [[unlikely]]
      fail("tokenizer", *file_, ": ", key_.empty() ? "the file" : key_.c_str(), " is ", spelled(), ": ", parts...);
  }

 private:
  std::string below(const std::string& key) const { return key_.empty() ? key : key_ + "." + key; }

  std::string spelled() const {
    if (value_->is_string()) return shown(text());
    if (value_->is_array()) return "an array of " + std::to_string(value_->size());
    if (value_->is_object()) return "an object of " + std::to_string(value_->size());
    return value_->dump();
  }

  const nlohmann::json* value_;
  const std::string* file_;
  std::string key_;
};

inline nlohmann::json parse_json(const std::string& text, const std::string& file) {
  require(text.find('\0') == std::string::npos, "tokenizer", file, ": the file contains a NUL byte");  // where the parser would stop
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    fail("tokenizer", file, ": the file is not valid JSON at byte ", error.byte);
  } catch (const nlohmann::json::exception&) {
    fail("tokenizer", file, ": the file is not valid JSON");  // a number that is too large
  }
}

/// A piece that is looked for in the text before all others.
struct AddedPiece {
  std::string text;
  Id id = 0;
  bool special = false;                            // stands for no text
  bool normalized = false;                         // looked for in the normalized text, after the others
  bool strips_left = false, strips_right = false;  // takes the white space beside it along
};

/// One step on the way from text to words.
struct WordStep {
  std::optional<Splitter> split;  // otherwise a space is put before what does not begin with one
};

struct BytePairFiles {
  std::vector<std::pair<std::string, Id>> vocabulary;
  std::vector<std::pair<std::string, std::string>> merges;  // best first
  std::vector<AddedPiece> added;
  std::vector<WordStep> steps;
  std::vector<Id> front, back;  // put around every text
  bool composes = false;        // NFC
  bool whole_words = false;     // a word that is a piece is not looked at more closely
};

inline void read_vocabulary(const JsonValue& vocabulary, BytePairFiles& files) {
  vocabulary.each([&](const std::string& piece, const JsonValue& id) { files.vocabulary.emplace_back(piece, id.id()); });
}

/// "a b", as in both files.
inline bool split_merge(std::string_view text, std::pair<std::string, std::string>& merge) {
  const std::size_t space = text.find(' ');
  if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos) return false;
  merge = {std::string(text.substr(0, space)), std::string(text.substr(space + 1))};
  return true;
}

inline void add_split(std::string_view pattern, const JsonValue& from, BytePairFiles& files) {
  std::string problem;
  Splitter split(pattern, problem);
  from.check(problem.empty(), problem);
  files.steps.push_back({std::move(split)});
}

inline void add_byte_level(bool space_first, bool gpt2_words, BytePairFiles& files) {
  if (space_first) files.steps.push_back({});
  std::string none;
  if (gpt2_words) files.steps.push_back({Splitter(gpt2_pattern, none)});
}

inline BytePairFiles read_vocabulary_and_merges(const std::filesystem::path& vocabulary, const std::filesystem::path& merges) {
  BytePairFiles files;
  const std::string name = vocabulary.string();
  const nlohmann::json json = parse_json(read_whole_file(vocabulary), name);
  read_vocabulary(JsonValue(json, name, ""), files);

  const std::string text = read_whole_file(merges);
  std::size_t number = 0;
  for (std::size_t from = 0, to = 0; from < text.size(); from = to + 1) {
    to = (std::min)(text.find('\n', from), text.size());
    std::string_view line = std::string_view(text).substr(from, to - from);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (++number == 1 && line.starts_with("#version")) continue;
    require(find_broken_utf8(line) == std::string_view::npos && split_merge(line, files.merges.emplace_back()), "tokenizer",
            merges.string(), ": line ", number, " is ", shown(line), ", not two pieces with a space between them");
  }
  return files;
}

class TokenizerJson {
 public:
  explicit TokenizerJson(const std::filesystem::path& path)
      : name_(path.string()), json_(parse_json(read_whole_file(path), name_)), file_(json_, name_, "") {}

  BytePairFiles read() {
    file_.only({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder", "model"});
    file_["truncation"].check(file_["truncation"].null(), "texts are not truncated here");
    if (!file_["padding"].null()) {
      const JsonValue strategy = file_["padding"]["strategy"];
      strategy.check(strategy.is_text() && strategy.text() == "BatchLongest", "texts are not padded here");
    }
    read_model(file_["model"]);
    if (!file_["added_tokens"].null())
      for (const JsonValue& token : file_["added_tokens"].list()) read_added(token);
    if (!file_["normalizer"].null()) read_normalizer(file_["normalizer"]);
    read_words(file_["pre_tokenizer"]);
    file_["pre_tokenizer"].check(byte_level_, "there is no ByteLevel in it");
    if (!file_["post_processor"].null()) read_marks(file_["post_processor"]);
    const JsonValue decoder = file_["decoder"]["type"];
    decoder.check(decoder.is_text() && decoder.text() == "ByteLevel", "only ByteLevel is understood");
    return std::move(files_);
  }

 private:
  void read_model(const JsonValue& model) {
    const JsonValue type = model["type"];
    type.check(type.is_text() && type.text() == "BPE", "only BPE is understood");
    model.only({"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", "byte_fallback",
                "ignore_merges", "vocab", "merges"});  // an unknown piece, fused or not, is never needed: all bytes are known, or an Error
    model["dropout"].check(model["dropout"].null(), "the result must not be random");
    for (const char* const affix : {"continuing_subword_prefix", "end_of_word_suffix"})
      model[affix].check(model[affix].null() || model[affix].text().empty(), "it must be empty");
    model["byte_fallback"].check(!model["byte_fallback"].truth(false), "bytes are letters here");
    files_.whole_words = model["ignore_merges"].truth(false);
    read_vocabulary(model["vocab"], files_);
    for (const JsonValue& merge : model["merges"].list()) {
      auto& pair = files_.merges.emplace_back();
      if (merge.is_list()) {
        const std::vector<JsonValue> parts = merge.list();
        merge.check(parts.size() == 2, "a merge has two parts");
        pair = {parts[0].text(), parts[1].text()};
      } else {
        merge.check(split_merge(merge.text(), pair), "a merge is two pieces with a space between them");
      }
    }
  }

  void read_added(const JsonValue& token) {
    token.only({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
    token["single_word"].check(!token["single_word"].truth(false), "words around it are not looked at");
    token["content"].check(!token["content"].text().empty(), "it must not be empty");
    files_.added.push_back({token["content"].text(), token["id"].id(), token["special"].truth(false), token["normalized"].truth(),
                            token["lstrip"].truth(false), token["rstrip"].truth(false)});
  }

  /// Of a Sequence. Their number bounds how deep one can lie in another.
  std::vector<JsonValue> parts_of(const JsonValue& sequence, const char* key) {
    sequence.only({"type", key});
    sequence.check(++sequences_ <= 100, "there are more than 100 Sequences");
    return sequence[key].list();
  }

  void read_normalizer(const JsonValue& normalizer) {
    const std::string& type = normalizer["type"].text();
    if (type == "Sequence") {
      for (const JsonValue& part : parts_of(normalizer, "normalizers")) read_normalizer(part);
    } else {
      normalizer["type"].check(type == "NFC", "only NFC is understood");
      normalizer.only({"type"});
      files_.composes = true;
    }
  }

  void read_words(const JsonValue& words) {
    const std::string& type = words["type"].text();
    words.check(!byte_level_, "nothing may come after ByteLevel");
    if (type == "Sequence") {
      for (const JsonValue& part : parts_of(words, "pretokenizers")) read_words(part);
    } else if (type == "ByteLevel") {
      words.only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
      add_byte_level(words["add_prefix_space"].truth(), words["use_regex"].truth(true), files_);
      byte_level_ = true;
    } else if (type == "Digits") {
      words.only({"type", "individual_digits"});
      add_split(words["individual_digits"].truth() ? R"(\p{N})" : R"(\p{N}+)", words, files_);
    } else {
      words["type"].check(type == "Split", "only Sequence, Split, Digits and ByteLevel are understood");
      words.only({"type", "pattern", "behavior", "invert"});
      words["behavior"].check(words["behavior"].text() == "Isolated", "only Isolated is understood");
      words["invert"].check(!words["invert"].truth(), "it must be false");  // which changes nothing if what is found stands alone
      words["pattern"].only({"Regex"});
      const JsonValue pattern = words["pattern"]["Regex"];
      add_split(pattern.text(), pattern, files_);
    }
  }

  /// What is put before and after a text.
  void read_marks(const JsonValue& marks) {
    const std::string& type = marks["type"].text();
    if (type == "Sequence") {
      for (const JsonValue& part : parts_of(marks, "processors")) read_marks(part);
    } else if (type == "RobertaProcessing" || type == "BertProcessing") {
      marks.only({"type", "sep", "cls", "trim_offsets", "add_prefix_space"});  // the last two are about places in the text
      add_mark(marks["cls"], true);
      add_mark(marks["sep"], false);
    } else if (type == "TemplateProcessing") {
      marks.only({"type", "single", "pair", "special_tokens"});
      read_template(marks);
    } else {
      marks["type"].check(type == "ByteLevel",
                          "only Sequence, ByteLevel, TemplateProcessing, RobertaProcessing and BertProcessing are understood");
    }
  }

  void add_mark(const JsonValue& mark, bool front) {
    const std::vector<JsonValue> parts = mark.list();
    mark.check(parts.size() == 2, "it must be a piece and its id");
    put(front, {parts[1].id()});
  }

  void read_template(const JsonValue& marks) {
    bool front = true, text_seen = false;
    std::vector<Id> before, after;
    for (const JsonValue& part : marks["single"].list()) {
      if (!part["Sequence"].null()) {
        part["Sequence"]["id"].check(part["Sequence"]["id"].text() == "A" && !text_seen, "the text must occur once");
        text_seen = true, front = false;
        continue;
      }
      const std::string& name = part["SpecialToken"]["id"].text();
      const JsonValue ids = marks["special_tokens"][name]["ids"];
      for (const JsonValue& id : ids.list()) (front ? before : after).push_back(id.id());
    }
    marks["single"].check(text_seen, "the text must occur once");
    put(true, before);
    put(false, after);
  }

  /// Later processors put their marks outside of those of earlier ones.
  void put(bool front, const std::vector<Id>& ids) {
    std::vector<Id>& marks = front ? files_.front : files_.back;
    marks.insert(front ? marks.begin() : marks.end(), ids.begin(), ids.end());
  }

  std::string name_;
  nlohmann::json json_;
  JsonValue file_;
  BytePairFiles files_;
  int sequences_ = 0;
  bool byte_level_ = false;
};

}  // namespace eigenformer::detail
