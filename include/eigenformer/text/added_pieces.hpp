// Pieces that are looked for in a text before it is cut into words: marks, and what was added to a vocabulary later.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "eigenformer/core/scalar.hpp"
#include "eigenformer/text/utf8.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

/// Found in a text as it is spelled, whatever stands beside it.
struct AddedPiece {
  std::string text;
  std::optional<Id> id{};   ///< none, or another's: the vocabulary's, or else the next after all others
  bool special = false;     ///< stands for no text
  bool normalized = false;  ///< looked for in the normalized text, after the others
  bool strips_left = false, strips_right = false;  ///< takes the white space beside it along
};

namespace detail {

/// Looked for together: the leftmost, the longest among those that begin there.
class AddedPieces {
 public:
  void add(AddedPiece piece, Id id) {
    auto& pieces = by_first_byte_[static_cast<unsigned char>(piece.text.front())];
    const auto shorter = [&](const Found& other) { return other.piece.text.size() < piece.text.size(); };
    const auto place = std::find_if(pieces.begin(), pieces.end(), shorter);
    pieces.insert(place, {std::move(piece), id});
  }

  bool contains(std::string_view text) const {
    const auto& pieces = by_first_byte_[static_cast<unsigned char>(text.front())];
    return std::any_of(pieces.begin(), pieces.end(), [&](const Found& found) { return found.piece.text == text; });
  }

  /// found(id) for each piece, between(part) for what lies between, in order.
  template <class F, class G>
  void each_part(std::string_view text, F&& found, G&& between) const {
    std::size_t done = 0;
    for (std::size_t at = 0; at < text.size();) {
      const auto& pieces = by_first_byte_[static_cast<unsigned char>(text[at])];
      const auto here = std::find_if(pieces.begin(), pieces.end(),
                                     [&](const Found& f) { return text.substr(at).starts_with(f.piece.text); });
      if (here == pieces.end()) {
        ++at;
        continue;
      }
      const std::size_t left = here->piece.strips_left ? white_space_before(text, done, at) : at;
      if (left > done) between(text.substr(done, left - done));
      found(here->id);
      at += here->piece.text.size();
      if (here->piece.strips_right) at = white_space_after(text, at);
      done = at;
    }
    if (done < text.size()) between(text.substr(done));
  }

 private:
  struct Found {
    AddedPiece piece;
    Id id;
  };

  static std::size_t white_space_before(std::string_view text, std::size_t from, std::size_t at) {
    while (at > from) {
      std::size_t first = at - 1;
      while (first > from && (static_cast<unsigned char>(text[first]) & 0xc0) == 0x80) --first;
      if (!begins_with_white_space(text.substr(first, at - first))) break;
      at = first;
    }
    return at;
  }
  static std::size_t white_space_after(std::string_view text, std::size_t at) {
    while (begins_with_white_space(text.substr(at))) at += utf8_step(text.substr(at)).length;
    return at;
  }

  std::array<std::vector<Found>, 256> by_first_byte_;  // longest first
};

}  // namespace detail
}  // namespace eigenformer
