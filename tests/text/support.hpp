// For tests of tokenizers: UTF-8 by its definition, streams against decode(), small vocabularies.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "eigenformer/core/random.hpp"
#include "eigenformer/text/tokenizer.hpp"
#include "support/files.hpp"

namespace eigenformer::test {

/// Computes every character and checks that it is one, in its shortest form.
inline bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto first = static_cast<unsigned char>(text[i]);
    std::size_t length = 1;
    std::uint32_t character = first;
    if (first >= 0x80) {
      if (first >> 5 == 6) length = 2, character = first & 0x1f;
      else if (first >> 4 == 14) length = 3, character = first & 0xf;
      else if (first >> 3 == 30) length = 4, character = first & 7;
      else return false;
    }
    if (i + length > text.size()) return false;
    for (std::size_t j = 1; j < length; ++j) {
      const auto next = static_cast<unsigned char>(text[i + j]);
      if (next >> 6 != 2) return false;
      character = character << 6 | (next & 0x3f);
    }
    const std::uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (character < least[length] || character > 0x10ffff || (character >= 0xd800 && character < 0xe000)) return false;
    i += length;
  }
  return true;
}

/// One id at a time: whole characters, and together the same text, which is returned.
inline std::string expect_streams(const Tokenizer& tokenizer, const std::vector<Id>& ids) {
  TextStream stream(tokenizer);
  const std::string all = tokenizer.decode(ids);
  for (int round = 0; round < 2; ++round) {  // flush() begins anew
    std::string text;
    for (std::size_t i = 0; i <= ids.size(); ++i) {
      const std::string part = i < ids.size() ? stream.next(ids[i]) : stream.flush();
      EXPECT_TRUE(is_utf8(part)) << part;
      text += part;
    }
    EXPECT_EQ(text, all);
  }
  return all;
}

/// A new file in the place of the old one: some file systems wait for the disk when a file is cut to nothing and
/// written again.
inline void replace_file(const std::filesystem::path& path, const std::string& bytes) {
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
  write_file(path, bytes);
}

/// Ids of any kind, also those that never follow each other.
inline std::vector<Id> random_ids(RandomSequence& random, Id size, Index most) {
  std::vector<Id> ids(static_cast<std::size_t>(random.below(most + 1)));
  for (Id& id : ids) id = static_cast<Id>(random.below(size));
  return ids;
}

/// A text of some of these.
inline std::string random_text(RandomSequence& random, const std::vector<std::string>& parts, Index most) {
  std::string text;
  for (Index left = random.below(most + 1); left > 0; --left)
    text += parts[static_cast<std::size_t>(random.below(static_cast<Index>(parts.size())))];
  return text;
}

struct ScoredPiece {
  std::string text;
  float score;
};
inline std::string llama2c_bytes(const std::vector<ScoredPiece>& pieces, std::uint32_t longest) {
  std::string bytes = bytes_of(longest);
  for (const auto& [text, score] : pieces)
    bytes += bytes_of(score) + bytes_of(static_cast<std::uint32_t>(text.size())) + text;
  return bytes;
}

/// What every vocabulary of llama2.c begins with, then these.
inline std::vector<ScoredPiece> llama2c_pieces(const std::vector<ScoredPiece>& more) {
  std::vector<ScoredPiece> pieces{{"<unk>", 0}, {"\n<s>\n", 0}, {"\n</s>\n", 0}};
  for (int byte = 0; byte < 256; ++byte) {
    const char* const digits = "0123456789ABCDEF";
    pieces.push_back({std::string("<0x") + digits[byte / 16] + digits[byte % 16] + ">", 0});
  }
  pieces.insert(pieces.end(), more.begin(), more.end());
  return pieces;
}

}  // namespace eigenformer::test
