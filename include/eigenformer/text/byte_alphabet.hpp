// GPT-2's alphabet (https://github.com/openai/gpt-2/blob/master/src/encoder.py): a visible character for each byte, so
// that any bytes are a word without spaces. Bytes that are visible in Latin-1 are themselves, the others U+0100,
// U+0101, … in their order: a space is Ġ, a newline Ċ.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "eigenformer/text/utf8.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

namespace detail {

inline constexpr std::array<char32_t, 256> byte_characters = [] {
  std::array<char32_t, 256> characters{};
  char32_t next = 0x100;
  for (char32_t byte = 0; byte < 256; ++byte) {
    const bool visible = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte != 0xad);
    characters[byte] = visible ? byte : next++;
  }
  return characters;
}();

inline constexpr std::array<int, 0x144> character_bytes = [] {
  std::array<int, 0x144> bytes{};
  bytes.fill(-1);
  for (int byte = 0; byte < 256; ++byte) bytes[byte_characters[static_cast<unsigned>(byte)]] = byte;
  return bytes;
}();

}  // namespace detail

/// Bytes in this alphabet, as vocab.json and merges.txt spell them.
inline std::string to_byte_characters(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) detail::append_utf8(detail::byte_characters[static_cast<unsigned char>(c)], text);
  return text;
}

/// Nothing if a character of `text`, which is UTF-8, stands for no byte.
inline std::optional<std::string> from_byte_characters(std::string_view text) {
  std::string bytes;
  while (!text.empty()) {
    const char32_t character = detail::take_character(text);
    if (character >= detail::character_bytes.size() || detail::character_bytes[character] < 0) return {};
    bytes.push_back(static_cast<char>(static_cast<unsigned char>(detail::character_bytes[character])));
  }
  return bytes;
}

}  // namespace eigenformer
