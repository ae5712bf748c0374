// UTF-8, one character at a time: what is whole, what is broken, and what may still become whole.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "eigenformer/core/language.hpp"

namespace eigenformer::inline EIGENFORMER_ABI::detail {

/// What a text begins with: a whole character; the longest beginning of one, broken off by another byte; or a beginning
/// that ends with the text. Lengths are as the Unicode standard recommends for U+FFFD ("maximal subparts"): every
/// decoder that follows it puts the same number of them.
struct Utf8Step {
  enum Kind { whole, broken, unfinished } kind;
  std::size_t length;
};

/// Of a text that is not empty.
inline Utf8Step utf8_step(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return {Utf8Step::whole, 1};
  if (first < 0xc2 || first > 0xf4)
    return {Utf8Step::broken, 1};  // a continuation, an overlong form, or beyond U+10FFFF
  const std::size_t length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  // The second byte rules out the other overlong forms, surrogates, and the rest beyond U+10FFFF.
  unsigned char low = first == 0xe0   ? 0xa0
                      : first == 0xf0 ? 0x90
                                      : 0x80,
                high = first == 0xed   ? 0x9f
                       : first == 0xf4 ? 0x8f
                                       : 0xbf;
  for (std::size_t i = 1; i < length; ++i, low = 0x80, high = 0xbf) {
    if (i == text.size()) return {Utf8Step::unfinished, i};
    if (byte(i) < low || byte(i) > high) return {Utf8Step::broken, i};
  }
  return {Utf8Step::whole, length};
}

/// Where the first byte is that belongs to no whole character; npos if the text is UTF-8.
inline std::size_t find_broken_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Step step = utf8_step(text.substr(at));
    if (step.kind != Utf8Step::whole) return at;
    at += step.length;
  }
  return std::string_view::npos;
}

inline constexpr std::string_view replacement_character = "\xef\xbf\xbd";  // U+FFFD

/// Moves the whole characters from the front of `bytes` to the end of `text`, with U+FFFD for what is broken; what may
/// still become whole remains.
inline void take_characters(std::string& bytes, std::string& text) {
  std::size_t at = 0;
  while (at < bytes.size()) {
    const Utf8Step step = utf8_step(std::string_view(bytes).substr(at));
    if (step.kind == Utf8Step::unfinished) break;
    text.append(step.kind == Utf8Step::whole ? std::string_view(bytes).substr(at, step.length) : replacement_character);
    at += step.length;
  }
  bytes.erase(0, at);
}

/// A character as UTF-8.
inline void append_utf8(char32_t character, std::string& text) {
  const auto put = [&](char32_t byte) { text.push_back(static_cast<char>(static_cast<unsigned char>(byte))); };
  if (character < 0x80) return put(character);
  if (character < 0x800) return put(0xc0 | character >> 6), put(0x80 | (character & 0x3f));
  if (character < 0x10000)
    return put(0xe0 | character >> 12), put(0x80 | (character >> 6 & 0x3f)), put(0x80 | (character & 0x3f));
  put(0xf0 | character >> 18), put(0x80 | (character >> 12 & 0x3f)), put(0x80 | (character >> 6 & 0x3f)),
      put(0x80 | (character & 0x3f));
}

/// The character that `text`, whole UTF-8, begins with; it is taken off.
inline char32_t take_character(std::string_view& text) {
  const std::size_t length = utf8_step(text).length;
  char32_t character = static_cast<unsigned char>(text[0]);
  if (length > 1) character &= 0x7fu >> length;
  for (std::size_t i = 1; i < length; ++i) character = character << 6 | (static_cast<unsigned char>(text[i]) & 0x3fu);
  text.remove_prefix(length);
  return character;
}

/// Unicode's White_Space.
inline bool white_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0d) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

/// Of any bytes.
inline bool begins_with_white_space(std::string_view text) {
  return !text.empty() && utf8_step(text).kind == Utf8Step::whole && white_space(take_character(text));
}

}  // namespace eigenformer::detail
