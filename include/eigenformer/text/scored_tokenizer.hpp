// Pieces with scores, as GGUF files have them of SentencePiece's byte-pair models: ids are llama.cpp's
// (https://github.com/ggml-org/llama.cpp, llama-vocab.cpp), which follows SentencePiece but for its normalizer: nothing
// is done to a text but that spaces become U+2581.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "eigenformer/core/error.hpp"
#include "eigenformer/core/scalar.hpp"
#include "eigenformer/text/added_pieces.hpp"
#include "eigenformer/text/merge.hpp"
#include "eigenformer/text/tokenizer.hpp"
#include "eigenformer/text/vocabulary.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

/// What a piece is for, with the numbers of GGUF.
enum class PieceKind { normal = 1, unknown, control, user_defined, unused, byte };

struct ScoredPiece {
  std::string text;
  float score = 0;
  PieceKind kind = PieceKind::normal;
};

struct ScoredConfig {
  std::optional<Id> bos{}, eos{};
  bool add_bos = true, add_eos = false;  ///< encode() puts them around a text
  bool prefix_space = true;              ///< a text, and what follows a mark, begins with a space
  bool find_marks = true;                ///< marks, such as <s>, are found in a text; else they are letters there
};

/// Encodes any bytes; where they are UTF-8, decode() gives them back. Pieces of the user are found before all others.
class ScoredTokenizer : public Tokenizer {
 public:
  /// `name` stands for the pieces in errors.
  ScoredTokenizer(std::vector<ScoredPiece> pieces, const ScoredConfig& config, const std::string& name)
      : pieces_(std::move(pieces)), bos_(config.bos), eos_(config.eos), prefix_space_(config.prefix_space) {
    const auto validate = [&](bool holds, const auto&... parts) { ensure(holds, "tokenizer", name, ": ", parts...); };
    validate(!pieces_.empty() && pieces_.size() < 0x7fffffff, "there are ", pieces_.size(), " pieces");
    ids_.reserve(pieces_.size());
    for (Id id = 0; id < size(); ++id) {
      const auto& [text, score, kind] = at(id);
      validate(!text.empty(), "piece ", id, " is empty");
      validate(!std::isnan(score), "the score of piece ", id, " is not a number");
      validate(kind != PieceKind::byte || detail::byte_of_piece(text) >= 0, "piece ", id, " is ", detail::shown(text),
               ", which is no byte");
      validate(ids_.emplace(text, id).second, "the piece ", detail::shown(text), " is there twice");
      longest_ = (std::max)(longest_, text.size());
      const bool mark = kind == PieceKind::control || kind == PieceKind::unknown;
      if (kind == PieceKind::user_defined || (mark && config.find_marks)) found_.add({.text = text}, id);
    }
    for (int byte = 0; byte < 256; ++byte) {
      const char letter = static_cast<char>(static_cast<unsigned char>(byte));
      bytes_[static_cast<std::size_t>(byte)] =
          find(detail::piece_of_byte(byte)).value_or(find(std::string_view(&letter, 1)).value_or(-1));
    }
    for (const auto& [mark, adds, what] :
         {std::tuple{bos_, config.add_bos, "bos"}, std::tuple{eos_, config.add_eos, "eos"}}) {
      validate(!mark || (*mark >= 0 && *mark < size()), "the ", what, " piece is ", mark.value_or(0), " of ", size());
      validate(mark || !adds, "there is no ", what, " piece to put around a text");
      if (mark) pieces_[static_cast<std::size_t>(*mark)].kind = PieceKind::control;
    }
    if (config.add_bos) front_ = bos_;
    if (config.add_eos) back_ = eos_;
  }

  /// Characters are merged into longer pieces as long as there are any, best score first; those that are no pieces in
  /// the end become bytes.
  std::vector<Id> encode(std::string_view text) const override {
    ensure(text.size() <= 0x3fffffff, "tokenizer", "a text of ", text.size(), " bytes is too long");
    std::vector<Id> ids;
    if (front_) ids.push_back(*front_);
    found_.each_part(
        text, [&](Id id) { ids.push_back(id); }, [&](std::string_view part) { encode_part(part, ids); });
    if (back_) ids.push_back(*back_);
    return ids;
  }

  Id size() const override { return static_cast<Id>(pieces_.size()); }
  std::optional<Id> bos() const override { return bos_; }
  std::optional<Id> eos() const override { return eos_; }
  std::optional<Id> find(std::string_view piece) const override {
    const auto found = ids_.find(piece);
    return found == ids_.end() ? std::nullopt : std::optional(found->second);
  }

  /// `state` is 1 once there was text, or the space that was put before it.
  void append(Id id, int& state, std::string& bytes) const override {
    if (id < 0 || id >= size()) return;
    std::string_view text = at(id).text;
    switch (at(id).kind) {
      case PieceKind::unknown:
      case PieceKind::control:
      case PieceKind::unused: return;
      case PieceKind::user_defined: bytes.append(text); break;
      case PieceKind::byte:
        bytes.push_back(static_cast<char>(static_cast<unsigned char>(detail::byte_of_piece(text))));
        break;
      default:
        if (state == 0 && prefix_space_ && text.starts_with(detail::piece_space))
          text.remove_prefix(detail::piece_space.size());
        detail::append_spaced(text, bytes);
    }
    state = 1;
  }

 private:
  const ScoredPiece& at(Id id) const { return pieces_[static_cast<std::size_t>(id)]; }

  void encode_part(std::string_view part, std::vector<Id>& ids) const {
    std::string text;
    if (prefix_space_) text = detail::piece_space;
    for (const char c : part)
      if (c == ' ') text.append(detail::piece_space);
      else text.push_back(c);
    // Characters that are no pieces have ids beyond all others until they are known to stay alone.
    std::vector<std::string_view> alone;
    std::vector<Id> symbols;
    for (std::size_t from = 0, length = 0; from < text.size(); from += length) {
      const auto first = static_cast<unsigned char>(text[from]);
      length = (std::min)(std::size_t{first < 0xc0   ? 1u
                                      : first < 0xe0 ? 2u
                                      : first < 0xf0 ? 3u
                                                     : 4u},
                          text.size() - from);
      const std::string_view character = std::string_view(text).substr(from, length);
      const std::optional<Id> id = find(character);
      if (!id) alone.push_back(character);
      symbols.push_back(id.value_or(size() + static_cast<Id>(alone.size()) - 1));
    }
    const auto text_of = [&](Id id) {
      return id < size() ? std::string_view(at(id).text) : alone[static_cast<std::size_t>(id - size())];
    };
    std::string both;
    detail::merge_pairs<float>(symbols, [&](Id left, Id right) -> std::optional<detail::Merge<float>> {
      const std::string_view a = text_of(left), b = text_of(right);
      if (a.size() + b.size() > longest_) return {};
      both.assign(a).append(b);
      const auto found = ids_.find(both);
      if (found == ids_.end()) return {};
      return detail::Merge<float>{-at(found->second).score, found->second};
    });
    for (const Id id : symbols) {
      if (id < size()) {
        ids.push_back(id);
        continue;
      }
      for (const char c : text_of(id)) {
        const auto byte = static_cast<unsigned char>(c);
        ensure(bytes_[byte] >= 0, "tokenizer", "byte ", int{byte}, " of the text has no piece in the vocabulary");
        ids.push_back(bytes_[byte]);
      }
    }
  }

  std::vector<ScoredPiece> pieces_;  // by id
  detail::IdsByText ids_;
  std::array<Id, 256> bytes_{};
  detail::AddedPieces found_;  // before the others
  std::optional<Id> bos_, eos_, front_, back_;
  std::size_t longest_ = 0;
  bool prefix_space_;
};

}  // namespace eigenformer
