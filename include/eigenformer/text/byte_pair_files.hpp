// What the files of a byte-level byte-pair tokenizer say: vocab.json with merges.txt, or tokenizer.json.
//
// A tokenizer.json can describe much more than we do. What would change the ids or the text and is not understood is
// an Error, with its key and value.
#pragma once

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "eigenformer/core/error.hpp"
#include "eigenformer/core/scalar.hpp"
#include "eigenformer/text/added_pieces.hpp"
#include "eigenformer/text/json_value.hpp"
#include "eigenformer/text/split.hpp"
#include "eigenformer/text/tokenizer_settings.hpp"
#include "eigenformer/text/utf8.hpp"
#include "eigenformer/text/vocabulary.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

/// How a text is cut before the merges, when the files do not say: by the patterns of these families. Their names are
/// those of transformers' classes; all but GPT-2's compose characters (NFC) first.
enum class BytePairWords { gpt2, gpt_neox, cohere, qwen2, qwen3_5 };

namespace detail {

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
  bool finds_marks = true;      // in a text; else they are letters there
};

inline void read_vocabulary(const JsonValue& vocabulary, BytePairFiles& files) {
  vocabulary.each(
      [&](const std::string& piece, const JsonValue& id) { files.vocabulary.emplace_back(piece, id.id()); });
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
  from.validate(problem.empty(), problem);
  files.steps.push_back({std::move(split)});
}

inline void add_split(std::string_view pattern, BytePairFiles& files) {
  std::string none;
  files.steps.push_back({Splitter(pattern, none)});
}

inline void add_byte_level(bool space_first, bool gpt2_words, BytePairFiles& files) {
  if (space_first) files.steps.push_back({});
  if (gpt2_words) add_split(gpt2_pattern, files);
}

inline void add_words(BytePairWords words, bool space_first, BytePairFiles& files) {
  const bool qwen = words == BytePairWords::qwen2 || words == BytePairWords::qwen3_5;
  files.composes = words != BytePairWords::gpt2;
  if (qwen) add_split(words == BytePairWords::qwen2 ? qwen2_pattern : qwen3_5_pattern, files);
  if (words == BytePairWords::cohere) add_split(R"(\p{N})", files);
  add_byte_level(space_first, !qwen, files);
}

inline BytePairFiles read_vocabulary_and_merges(const std::filesystem::path& vocabulary,
                                                const std::filesystem::path& merges) {
  BytePairFiles files;
  read_vocabulary(JsonFile(vocabulary).value(), files);

  const std::string text = read_whole_file(merges);
  std::size_t number = 0;
  for (std::size_t from = 0, to = 0; from < text.size(); from = to + 1) {
    to = (std::min)(text.find('\n', from), text.size());
    std::string_view line = std::string_view(text).substr(from, to - from);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (++number == 1 && line.starts_with("#version")) continue;
    ensure(find_broken_utf8(line) == std::string_view::npos && split_merge(line, files.merges.emplace_back()),
           "tokenizer", merges.string(), ": line ", number, " is ", shown(line),
           ", not two pieces with a space between them");
  }
  return files;
}

class TokenizerJson {
 public:
  explicit TokenizerJson(const std::filesystem::path& path) : json_(path), file_(json_.value()) {}

  BytePairFiles read() {
    // transformers sets truncation and padding anew for each call: what the file says of them has no effect there
    // either.
    file_.only({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor",
                "decoder", "model"});
    read_model(file_["model"]);
    read_added_pieces(file_, files_.added);
    if (!file_["normalizer"].null()) read_normalizer(file_["normalizer"]);
    read_words(file_["pre_tokenizer"]);
    file_["pre_tokenizer"].validate(byte_level_, "there is no ByteLevel in it");
    PostProcessor marks(file_["post_processor"]);
    files_.front = std::move(marks.front);
    files_.back = std::move(marks.back);
    const JsonValue decoder = file_["decoder"]["type"];
    decoder.validate(decoder.is_text() && decoder.text() == "ByteLevel", "only ByteLevel is understood");
    return std::move(files_);
  }

 private:
  void read_model(const JsonValue& model) {
    const JsonValue type = model["type"];
    type.validate(type.is_text() && type.text() == "BPE", "only BPE is understood");
    model.only({"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
                "byte_fallback", "ignore_merges", "vocab",
                "merges"});  // an unknown piece, fused or not, is never needed: all bytes are known, or an Error
    model["dropout"].validate(model["dropout"].null(), "the result must not be random");
    for (const char* const affix : {"continuing_subword_prefix", "end_of_word_suffix"})
      model[affix].validate(model[affix].null() || model[affix].text().empty(), "it must be empty");
    model["byte_fallback"].validate(!model["byte_fallback"].truth(false), "bytes are letters here");
    files_.whole_words = model["ignore_merges"].truth(false);
    read_vocabulary(model["vocab"], files_);
    for (const JsonValue& merge : model["merges"].list()) {
      auto& pair = files_.merges.emplace_back();
      if (merge.is_list()) {
        const std::vector<JsonValue> parts = merge.list();
        merge.validate(parts.size() == 2, "a merge has two parts");
        pair = {parts[0].text(), parts[1].text()};
      } else {
        merge.validate(split_merge(merge.text(), pair), "a merge is two pieces with a space between them");
      }
    }
  }

  void read_normalizer(const JsonValue& normalizer) {
    const std::string& type = normalizer["type"].text();
    if (type == "Sequence") {
      for (const JsonValue& part : sequences_.parts(normalizer, "normalizers")) read_normalizer(part);
    } else {
      normalizer["type"].validate(type == "NFC", "only NFC is understood");
      normalizer.only({"type"});
      files_.composes = true;
    }
  }

  void read_words(const JsonValue& words) {
    const std::string& type = words["type"].text();
    words.validate(!byte_level_, "nothing may come after ByteLevel");
    if (type == "Sequence") {
      for (const JsonValue& part : sequences_.parts(words, "pretokenizers")) read_words(part);
    } else if (type == "ByteLevel") {
      words.only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
      add_byte_level(words["add_prefix_space"].truth(), words["use_regex"].truth(true), files_);
      byte_level_ = true;
    } else if (type == "Digits") {
      words.only({"type", "individual_digits"});
      add_split(words["individual_digits"].truth() ? R"(\p{N})" : R"(\p{N}+)", words, files_);
    } else {
      words["type"].validate(type == "Split", "only Sequence, Split, Digits and ByteLevel are understood");
      words.only({"type", "pattern", "behavior", "invert"});
      words["behavior"].validate(words["behavior"].text() == "Isolated", "only Isolated is understood");
      words["invert"].validate(!words["invert"].truth(),
                               "it must be false");  // which changes nothing if what is found stands alone
      words["pattern"].only({"Regex"});
      const JsonValue pattern = words["pattern"]["Regex"];
      add_split(pattern.text(), pattern, files_);
    }
  }

  JsonFile json_;
  JsonValue file_;
  BytePairFiles files_;
  Sequences sequences_;
  bool byte_level_ = false;
};

}  // namespace detail
}  // namespace eigenformer
