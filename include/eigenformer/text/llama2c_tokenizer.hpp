// Vocabularies of llama2.c (https://github.com/karpathy/llama2.c): the longest piece's length, then for each piece its
// score, length and bytes, all numbers little-endian and of 32 bits, up to the end of the file. Ids 0, 1 and 2 are
// unknown, bos and eos; 3 to 258 are the bytes, "<0x00>" to "<0xFF>".
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "eigenformer/core/error.hpp"
#include "eigenformer/core/scalar.hpp"
#include "eigenformer/text/merge.hpp"
#include "eigenformer/text/tokenizer.hpp"
#include "eigenformer/text/vocabulary.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

/// Encodes and decodes as that program does. Any bytes can be encoded; where they are UTF-8, decode() gives them back.
class Llama2cTokenizer : public Tokenizer {
 public:
  explicit Llama2cTokenizer(const std::filesystem::path& path) {
    const std::string file = detail::read_whole_file(path);
    std::size_t at = 0;
    const auto validate = [&](bool holds, const auto&... parts) {
      ensure(holds, "tokenizer", path.string(), ": ", parts...);
    };
    const auto number = [&](const char* what) {
      validate(file.size() - at >= 4, "the file ends at byte ", file.size(), ", within the ", what, " of piece ",
               pieces_.size());
      std::uint32_t bits = 0;
      for (std::size_t i = 0; i < 4; ++i) bits |= std::uint32_t{static_cast<unsigned char>(file[at + i])} << 8 * i;
      at += 4;
      return bits;
    };
    validate(file.size() >= 4, "the file has ", file.size(), " bytes, too few for the longest piece's length");
    longest_ = number("");
    while (at < file.size()) {
      const std::size_t index = pieces_.size();
      const float score = std::bit_cast<float>(number("score"));
      validate(!std::isnan(score), "the score of piece ", index, " is not a number");
      const std::uint32_t length = number("length");
      validate(length >= 1 && length <= longest_, "piece ", index, " would be ", length,
               " bytes long, not from 1 to the ", longest_, " of the longest");
      validate(length <= file.size() - at, "piece ", index, " would be ", length, " bytes long, but only ",
               file.size() - at, " follow");
      pieces_.push_back({file.substr(at, length), score});
      at += length;
    }
    validate(pieces_.size() >= first_byte + 256, "the vocabulary has ", pieces_.size(),
             " pieces, too few to begin with the 256 bytes");
    for (std::size_t byte = 0; byte < 256; ++byte)
      validate(detail::byte_of_piece(pieces_[first_byte + byte].text) == static_cast<int>(byte), "piece ",
               first_byte + byte, " is ", detail::shown(pieces_[first_byte + byte].text), ", not byte ", byte);
    validate(std::in_range<Id>(pieces_.size()), "there are more pieces than ids");
    ids_.reserve(pieces_.size());
    for (std::size_t i = 0; i < pieces_.size(); ++i)
      ids_.emplace(pieces_[i].text, static_cast<Id>(i));  // the first of equals
  }

  /// Begin, a space unless the text is empty, then the text: its characters, or their bytes if they are no pieces,
  /// merged into longer pieces as long as there are any, best score first.
  std::vector<Id> encode(std::string_view text) const override {
    std::vector<Id> ids{bos_id};
    if (!text.empty()) append_character(" ", ids);
    for (std::size_t from = 0, to = 0; from < text.size();
         from = to) {  // a byte with up to three that continue a character
      for (to = from + 1; to < text.size() && to - from < 4 && (static_cast<unsigned char>(text[to]) & 0xc0) == 0x80;)
        ++to;
      append_character(text.substr(from, to - from), ids);
    }
    std::string both;
    detail::merge_pairs<float>(ids, [&](Id left, Id right) -> std::optional<detail::Merge<float>> {
      const std::string &a = at(left).text, &b = at(right).text;
      if (a.size() + b.size() > longest_) return {};
      both.assign(a).append(b);
      const auto found = ids_.find(both);
      if (found == ids_.end() || !(at(found->second).score > lowest_score)) return {};
      return detail::Merge<float>{-at(found->second).score, found->second};
    });
    return ids;
  }

  Id size() const override { return static_cast<Id>(pieces_.size()); }
  std::optional<Id> bos() const override { return bos_id; }
  std::optional<Id> eos() const override { return eos_id; }
  std::optional<Id> find(std::string_view piece) const override {
    const auto found = ids_.find(piece);
    return found == ids_.end() ? std::nullopt : std::optional(found->second);
  }

  /// After bos, a piece loses its leading space, which encode() put there.
  void append(Id id, int& state, std::string& bytes) const override {
    if (id < 0 || id >= size()) return;
    const bool after_bos = std::exchange(state, id == bos_id ? 1 : 0) == 1;
    if (id == bos_id || id == eos_id) return;
    std::string_view text = at(id).text;
    if (after_bos && text.front() == ' ') text.remove_prefix(1);
    const int byte = detail::byte_of_piece(text);
    if (byte < 0) bytes.append(text);
    else bytes.push_back(static_cast<char>(static_cast<unsigned char>(byte)));
  }

 private:
  struct Piece {
    std::string text;
    float score;
  };
  static constexpr Id bos_id = 1, eos_id = 2;
  static constexpr std::size_t first_byte = 3;
  static constexpr float lowest_score =
      -1e10f;  // where that program's search begins: what is no better is never merged

  const Piece& at(Id id) const { return pieces_[static_cast<std::size_t>(id)]; }

  void append_character(std::string_view character, std::vector<Id>& ids) const {
    const auto found = ids_.find(character);
    if (found != ids_.end()) return ids.push_back(found->second);
    for (const char c : character) ids.push_back(static_cast<Id>(first_byte) + static_cast<unsigned char>(c));
  }

  std::size_t longest_ = 0;
  std::vector<Piece> pieces_;  // by id
  detail::IdsByText ids_;
};

}  // namespace eigenformer
