// SentencePiece models (Kudo and Richardson 2018; tokenizer.model, spiece.model), through their own library: link sentencepiece.
#pragma once

#include <sentencepiece_processor.h>

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "eigenformer/core/error.hpp"
#include "eigenformer/core/scalar.hpp"
#include "eigenformer/text/tokenizer.hpp"
#include "eigenformer/text/vocabulary.hpp"

namespace eigenformer {

/// The marks that encode() puts around a text: LLaMA 1 and 2 want `begin`, T5 `end`; the file does not say.
struct SentencePieceConfig {
  bool begin = false, end = false;
};

/// Ids and text are the library's, but for bytes that are no UTF-8: here a broken character is one U+FFFD, there each of its
/// bytes is. The library checks little of a file: load models only from where you would load a program.
class SentencePieceTokenizer : public Tokenizer {
 public:
  explicit SentencePieceTokenizer(const std::filesystem::path& path, SentencePieceConfig config = {}) {
    const std::string file = detail::read_whole_file(path);
    const auto check = [&](bool holds, const auto&... parts) { require(holds, "tokenizer", path.string(), ": ", parts...); };
    const auto processor = std::make_shared<sentencepiece::SentencePieceProcessor>();
    const auto status = processor->LoadFromSerializedProto(file);
    check(status.ok(), "this is no SentencePiece model: ", status.ToString());
    check(processor->GetPieceSize() > 0, "the vocabulary is empty");
    processor_ = processor;
    check(!config.begin || begin(), "the model has no piece that marks the begin");
    check(!config.end || end(), "the model has no piece that marks the end");
    config_ = config;
    probe();
  }

  std::vector<Id> encode(std::string_view text) const override {
    std::vector<int> pieces;
    const auto status = processor_->Encode(text, &pieces);
    require(status.ok(), "tokenizer", "SentencePiece cannot encode the text: ", status.ToString());
    std::vector<Id> ids;
    if (config_.begin) ids.push_back(*begin());
    ids.insert(ids.end(), pieces.begin(), pieces.end());
    if (config_.end) ids.push_back(*end());
    return ids;
  }

  Id size() const override { return processor_->GetPieceSize(); }
  std::optional<Id> begin() const override { return known(processor_->bos_id()); }
  std::optional<Id> end() const override { return known(processor_->eos_id()); }
  std::optional<Id> find(std::string_view piece) const override {
    const Id id = processor_->PieceToId(piece);
    return processor_->IdToPiece(id) == piece ? std::optional(id) : std::nullopt;
  }

  /// `state` is 1 once there was text, or the space that the library put before it.
  void append(Id id, int& state, std::string& bytes) const override {
    if (id < 0 || id >= size()) detail::fail_for_id(id, size());
    if (processor_->IsControl(id)) return;
    const std::size_t length = bytes.size();
    bool space_taken = false;
    if (processor_->IsUnknown(id)) {
      bytes.append(unknown_);
    } else if (processor_->IsByte(id)) {
      bytes.append(1, byte_of(processor_->IdToPiece(id)));
    } else {
      std::string_view piece = processor_->IdToPiece(id);
      if (state == 0 && takes_space_ && piece.starts_with(space)) {
        piece.remove_prefix(space.size());
        space_taken = !takes_all_spaces_;
      }
      while (!piece.empty()) {
        const std::size_t at = piece.find(space);
        bytes.append(piece.substr(0, at));
        if (at == std::string_view::npos) break;
        bytes.push_back(' ');
        piece.remove_prefix(at + space.size());
      }
    }
    if (space_taken || bytes.size() > length) state = 1;
  }

 private:
  static constexpr std::string_view space = "\xe2\x96\x81";  // U+2581

  static std::optional<Id> known(int id) { return id < 0 ? std::nullopt : std::optional(Id{id}); }

  static char byte_of(std::string_view piece) {  // "<0xNN>", as the library has checked
    const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'A' + 10; };
    return static_cast<char>(static_cast<unsigned char>(16 * digit(piece[3]) + digit(piece[4])));
  }

  /// What the model says of decoding can be seen only from what it does.
  void probe() {
    const auto decoded = [&](const std::vector<int>& ids) {
      std::string text;
      const auto status = processor_->Decode(ids, &text);
      require(status.ok(), "tokenizer", "SentencePiece cannot decode: ", status.ToString());
      return text;
    };
    bool seen = false;
    for (int id = 0; id < size(); ++id) {
      if (processor_->IsUnknown(id)) unknown_ = decoded({id});
      if (processor_->IsUnknown(id) || processor_->IsControl(id) || processor_->IsByte(id)) continue;
      const std::string_view piece = processor_->IdToPiece(id);
      if (!piece.starts_with(space)) continue;
      if (!seen) takes_space_ = !decoded({id}).starts_with(' ');
      seen = true;
      if (piece == space) takes_all_spaces_ = takes_space_ && decoded({id, id}).empty();  // after other pieces it makes no difference
    }
  }

  std::shared_ptr<const sentencepiece::SentencePieceProcessor> processor_;
  SentencePieceConfig config_;
  std::string unknown_;
  bool takes_space_ = false, takes_all_spaces_ = false;  // at the begin of a text
};

}  // namespace eigenformer
