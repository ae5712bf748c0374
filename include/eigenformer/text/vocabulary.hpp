// What vocabularies of all kinds share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <ios>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>

#include "eigenformer/core/error.hpp"
#include "eigenformer/core/open_file.hpp"
#include "eigenformer/core/scalar.hpp"

namespace eigenformer::inline EIGENFORMER_ABI::detail {

struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

/// Ids by the text of their pieces.
using IdsByText = std::unordered_map<std::string, Id, TextHash, std::equal_to<>>;

/// Text of files in errors: in full only if of sensible length, and always printable.
inline std::string shown(std::string_view text) {
  std::string result = "\"";
  for (const char c : text.substr(0, 100)) {
    constexpr char digits[] = "0123456789abcdef";
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7f) result += c;
    else result.append("\\x").append(1, digits[byte >> 4]).append(1, digits[byte & 15]);
  }
  return result += text.size() > 100 ? "…\"" : "\"";
}

inline constexpr std::string_view piece_space = "\xe2\x96\x81";  // U+2581, SentencePiece's space

/// The text of a piece.
inline void append_spaced(std::string_view piece, std::string& bytes) {
  for (std::size_t at = piece.find(piece_space); at != std::string_view::npos; at = piece.find(piece_space)) {
    bytes.append(piece.substr(0, at)).push_back(' ');
    piece.remove_prefix(at + piece_space.size());
  }
  bytes.append(piece);
}

/// "<0xNN>"
inline std::string piece_of_byte(int byte) {
  constexpr char digits[] = "0123456789ABCDEF";
  return {'<', '0', 'x', digits[byte / 16], digits[byte % 16], '>'};
}

/// The byte that "<0xNN>" stands for; −1 for other pieces.
inline int byte_of_piece(std::string_view piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece.back() != '>') return -1;
  int byte = 0;
  for (const char c : piece.substr(3, 2)) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                             : -1;
    if (digit < 0) return -1;
    byte = 16 * byte + digit;
  }
  return byte;
}

/// All bytes of a file.
inline std::string read_whole_file(const std::filesystem::path& path) {
  std::ifstream file = open_file("tokenizer", path);
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  ensure(!error, "tokenizer", path.string(), ": cannot be read: ", error.message());
  std::string bytes(static_cast<std::size_t>(size), '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  ensure(static_cast<std::uintmax_t>(file.gcount()) == size, "tokenizer", path.string(),
         ": cannot be read, or was cut off while being read");
  return bytes;
}

}  // namespace eigenformer::detail
