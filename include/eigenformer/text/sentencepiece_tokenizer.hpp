// SentencePiece models (Kudo and Richardson 2018; tokenizer.model, spiece.model), through their own library: link
// sentencepiece.
#pragma once

#include <sentencepiece_processor.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "eigenformer/core/error.hpp"
#include "eigenformer/core/scalar.hpp"
#include "eigenformer/text/added_pieces.hpp"
#include "eigenformer/text/tokenizer.hpp"
#include "eigenformer/text/utf8.hpp"
#include "eigenformer/text/vocabulary.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

namespace detail {

/// `path` is for errors.
inline std::shared_ptr<sentencepiece::SentencePieceProcessor> open_model(std::string_view proto,
                                                                         const std::filesystem::path& path) {
  auto processor = std::make_shared<sentencepiece::SentencePieceProcessor>();
  const auto status = processor->LoadFromSerializedProto(proto);
  ensure(status.ok(), "tokenizer", path.string(), ": this is no SentencePiece model: ", status.ToString());
  return processor;
}

template <class T>
std::vector<T> encode_with(const sentencepiece::SentencePieceProcessor& processor, std::string_view text) {
  std::vector<T> pieces;
  const auto status = processor.Encode(text, &pieces);
  ensure(status.ok(), "tokenizer", "SentencePiece cannot encode the text: ", status.ToString());
  return pieces;
}

}  // namespace detail

/// What the file does not say.
struct SentencePieceConfig {
  bool add_bos = false, add_eos = false;  ///< encode() puts these marks around a text: LLaMA 1 and 2 want bos, T5 eos
  std::optional<std::string> bos_piece{}, eos_piece{};  ///< instead of the model's own
  std::vector<AddedPiece>
      added{};               ///< found in a text before the model sees it; their ids may be those of unused pieces
  bool find_marks = false;   ///< the model's marks, such as <s>, are found in a text too; else they are letters there
  bool prefix_once = false;  ///< the space that the model puts before a text is not put behind added pieces
};

/// Ids and text are the library's, but for bytes that are no UTF-8: here a broken character is one U+FFFD, there each
/// of its bytes is. The library checks little of a file: load models only from where you would load a program.
class SentencePieceTokenizer : public Tokenizer {
 public:
  explicit SentencePieceTokenizer(const std::filesystem::path& path, const SentencePieceConfig& config = {})
      : SentencePieceTokenizer(detail::read_whole_file(path), path, config) {}

  /// Of the bytes of such a file; `path` is for errors.
  SentencePieceTokenizer(const std::string& file, const std::filesystem::path& path,
                         const SentencePieceConfig& config) {
    const auto validate = [&](bool holds, const auto&... parts) {
      ensure(holds, "tokenizer", path.string(), ": ", parts...);
    };
    processor_ = detail::open_model(file, path);
    validate(processor_->GetPieceSize() > 0, "the vocabulary is empty");
    size_ = processor_->GetPieceSize();
    add_pieces(config, validate);
    const auto known = [&](const std::optional<std::string>& piece, int own, const char* what) {
      const std::optional<Id> id = piece ? find(*piece) : own < 0 ? std::nullopt : std::optional(Id{own});
      validate(!piece || id, "the ", what, " piece ", detail::shown(piece.value_or("")), " is not in the vocabulary");
      return id;
    };
    bos_ = known(config.bos_piece, processor_->bos_id(), "bos");
    eos_ = known(config.eos_piece, processor_->eos_id(), "eos");
    validate(!config.add_bos || bos_, "the model has no bos piece");
    validate(!config.add_eos || eos_, "the model has no eos piece");
    if (config.add_bos) front_ = bos_;
    if (config.add_eos) back_ = eos_;
    // Messages that follow each other are one: its normalizer_spec (3) with add_dummy_prefix (3) = false.
    if (config.prefix_once && !texts_.empty())
      bare_ = detail::open_model(file + std::string("\x1a\x02\x18\x00", 4), path);
    probe();
  }

  std::vector<Id> encode(std::string_view text) const override {
    std::vector<Id> ids;
    if (front_) ids.push_back(*front_);
    const auto push = [&](Id id) { ids.push_back(id); };
    verbatim_.each_part(text, push, [&](std::string_view part) {
      normalized_.each_part(part, push,
                            [&](std::string_view rest) { encode_part(rest, rest.data() == text.data(), ids); });
    });
    if (back_) ids.push_back(*back_);
    return ids;
  }

  Id size() const override { return size_; }
  std::optional<Id> bos() const override { return bos_; }
  std::optional<Id> eos() const override { return eos_; }
  std::optional<Id> find(std::string_view piece) const override {
    if (const auto found = added_ids_.find(piece); found != added_ids_.end()) return found->second;
    const Id id = processor_->PieceToId(piece);
    return processor_->IdToPiece(id) == piece ? std::optional(id) : std::nullopt;
  }

  /// `state` is 1 once there was text, or the space that the library put before it.
  void append(Id id, int& state, std::string& bytes) const override {
    const std::size_t length = bytes.size();
    bool space_taken = false;
    if (const auto found = texts_.find(id); found != texts_.end()) {
      bytes.append(found->second);
    } else if (id < 0 || id >= processor_->GetPieceSize() || processor_->IsControl(id)) {
      return;
    } else if (processor_->IsUnknown(id)) {
      bytes.append(unknown_);
    } else if (processor_->IsByte(id)) {
      const int byte = detail::byte_of_piece(processor_->IdToPiece(id));  // which the library has checked
      bytes.append(1, static_cast<char>(static_cast<unsigned char>(byte)));
    } else {
      std::string_view piece = processor_->IdToPiece(id);
      if (state == 0 && takes_space_ && piece.starts_with(detail::piece_space)) {
        piece.remove_prefix(detail::piece_space.size());
        space_taken = !takes_all_spaces_;
      }
      detail::append_spaced(piece, bytes);
    }
    if (space_taken || bytes.size() > length) state = 1;
  }

 private:
  template <class Check>
  void add_pieces(const SentencePieceConfig& config, const Check& validate) {
    const auto add = [&](const AddedPiece& piece) {
      validate(!piece.text.empty(), "an added piece is empty");
      const std::optional<Id> known = find(piece.text);
      const Id id = known ? *known : piece.id && !texts_.contains(*piece.id) ? *piece.id : size_;
      validate(id >= 0 && id < (std::numeric_limits<Id>::max)(), "the piece ", detail::shown(piece.text),
               " has the id ", id);
      added_ids_.emplace(piece.text, id);
      const auto text = texts_.emplace(id, piece.text).first;
      if (piece.special) text->second.clear();
      size_ = (std::max)(size_, id + 1);
      if (!verbatim_.contains(piece.text) && !normalized_.contains(piece.text))
        (piece.normalized ? normalized_ : verbatim_).add(piece, id);
    };
    for (const AddedPiece& piece : config.added) add(piece);
    for (Id id = 0; config.find_marks && id < processor_->GetPieceSize(); ++id)
      if (processor_->IsControl(id) || processor_->IsUnknown(id))
        add({.text = processor_->IdToPiece(id), .id = id, .special = true});
    for (const auto* const mark : {&config.bos_piece, &config.eos_piece})
      if (*mark && find(**mark)) add({.text = **mark, .special = true});
  }

  /// A part of a text, the first one or what follows an added piece.
  void encode_part(std::string_view text, bool first, std::vector<Id>& ids) const {
    // Models that make one of several spaces would take the first away: the space that they put instead is that one.
    const bool bare = bare_ && !first && !(strips_ && detail::begins_with_white_space(text));
    const std::vector<int> pieces = detail::encode_with<int>(bare ? *bare_ : *processor_, text);
    ids.insert(ids.end(), pieces.begin(), pieces.end());
  }

  /// What the model says of white space can be seen only from what it does.
  void probe() {
    const auto decoded = [&](const std::vector<int>& ids) {
      std::string text;
      const auto status = processor_->Decode(ids, &text);
      ensure(status.ok(), "tokenizer", "SentencePiece cannot decode: ", status.ToString());
      return text;
    };
    bool seen = false;
    for (int id = 0; id < processor_->GetPieceSize(); ++id) {
      if (processor_->IsUnknown(id)) unknown_ = decoded({id});
      if (processor_->IsUnknown(id) || processor_->IsControl(id) || processor_->IsByte(id)) continue;
      const std::string_view piece = processor_->IdToPiece(id);
      if (!piece.starts_with(detail::piece_space)) continue;
      std::string whole;
      detail::append_spaced(piece, whole);
      if (!seen) takes_space_ = decoded({id}).size() < whole.size();
      seen = true;
      if (piece == detail::piece_space)
        takes_all_spaces_ = takes_space_ && decoded({id, id}).empty();  // after other pieces it makes no difference
    }
    strips_ = detail::encode_with<int>(*processor_, " ").empty();
  }

  std::shared_ptr<const sentencepiece::SentencePieceProcessor> processor_, bare_;  // bare_ puts no space before a text
  detail::AddedPieces verbatim_, normalized_;
  detail::IdsByText added_ids_;
  std::unordered_map<Id, std::string> texts_;  // of added pieces
  std::string unknown_;
  std::optional<Id> bos_, eos_, front_, back_;
  Id size_ = 0;
  bool takes_space_ = false, takes_all_spaces_ = false;  // at the start of a text
  bool strips_ = false;                                  // white space at both ends of a text
};

}  // namespace eigenformer
