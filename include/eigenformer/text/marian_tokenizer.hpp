// Marian's translation models (OPUS-MT): source.spm cuts a text into pieces, vocab.json numbers them. Needs
// SentencePiece and nlohmann/json.
#pragma once

#include <sentencepiece_processor.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "eigenformer/core/error.hpp"
#include "eigenformer/core/open_file.hpp"
#include "eigenformer/core/scalar.hpp"
#include "eigenformer/text/json_value.hpp"
#include "eigenformer/text/sentencepiece_tokenizer.hpp"
#include "eigenformer/text/tokenizer.hpp"
#include "eigenformer/text/vocabulary.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

/// As transformers' MarianTokenizer without sacremoses, whose punctuation it does not change. A text may begin with the
/// code of the target language (">>fr<<"), a piece of its own. Source and target share one vocabulary.
class MarianTokenizer : public Tokenizer {
 public:
  MarianTokenizer(const std::filesystem::path& model, const std::filesystem::path& vocabulary) {
    processor_ = detail::open_model(detail::read_whole_file(model), model);
    const auto validate = [&](bool holds, const auto&... parts) {
      ensure(holds, "tokenizer", vocabulary.string(), ": ", parts...);
    };
    const auto target = vocabulary.parent_path() / "target_vocab.json";
    validate(detail::is_missing(target), "the target has a vocabulary of its own, ", target.filename().string(),
             ", which is not understood");
    detail::JsonFile(vocabulary).value().each([&](const std::string& piece, const detail::JsonValue& value) {
      const Id id = value.id();
      ids_.emplace(piece, id);
      const auto [text, added] = pieces_.try_emplace(id);
      value.validate(added, "another piece has this id too");
      detail::append_spaced(piece, text->second);
      size_ = (std::max)(size_, id + 1);
    });
    for (const std::string name : {"</s>", "<unk>", "<pad>"})
      if (const auto id = find(name)) pieces_[*id].clear();
    validate(find("</s>") && find("<unk>"), "there is no </s> or no <unk> in the vocabulary");
    eos_ = *find("</s>");
    unknown_ = *find("<unk>");
  }

  std::vector<Id> encode(std::string_view text) const override {
    std::vector<Id> ids;
    const auto push = [&](std::string_view piece) { ids.push_back(find(piece).value_or(unknown_)); };
    if (const std::size_t end = text.find("<<"); text.starts_with(">>") && end != std::string_view::npos) {
      push(text.substr(0, end + 2));
      text.remove_prefix(end + 2);
    }
    for (const std::string& piece : detail::encode_with<std::string>(*processor_, text)) push(piece);
    ids.push_back(eos_);
    return ids;
  }

  Id size() const override { return size_; }
  std::optional<Id> bos() const override { return {}; }
  std::optional<Id> eos() const override { return eos_; }
  std::optional<Id> find(std::string_view piece) const override {
    const auto found = ids_.find(piece);
    return found == ids_.end() ? std::nullopt : std::optional(found->second);
  }

  /// `state` is 1 once there was text: it begins without spaces.
  void append(Id id, int& state, std::string& bytes) const override {
    const auto found = pieces_.find(id);
    if (found == pieces_.end()) return;
    std::string_view text = found->second;
    if (state == 0) text.remove_prefix((std::min)(text.find_first_not_of(' '), text.size()));
    if (!text.empty()) state = 1;
    bytes.append(text);
  }

 private:
  std::shared_ptr<const sentencepiece::SentencePieceProcessor> processor_;
  detail::IdsByText ids_;
  std::unordered_map<Id, std::string> pieces_;  // their text; marks have none
  Id eos_ = 0, unknown_ = 0, size_ = 0;
};

}  // namespace eigenformer
