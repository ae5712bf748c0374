// Small byte-level vocabularies, as files spell them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "eigenformer/core/scalar.hpp"
#include "eigenformer/text/byte_alphabet.hpp"

namespace eigenformer::test {

using Merges = std::vector<std::pair<std::string, std::string>>;

/// Id n is byte n; then what the merges give, each once, then these.
inline nlohmann::json byte_vocabulary(const Merges& merges, const std::vector<std::string>& more) {
  nlohmann::json vocabulary;
  Id next = 0;
  for (; next < 256; ++next)
    vocabulary[to_byte_characters(std::string(1, static_cast<char>(static_cast<unsigned char>(next))))] = next;
  for (const auto& [left, right] : merges)
    if (!vocabulary.contains(left + right)) vocabulary[left + right] = next++;
  for (const std::string& piece : more) vocabulary[piece] = next++;
  return vocabulary;
}

inline std::string merges_text(const Merges& merges) {
  std::string text = "#version: 0.2\n";
  for (const auto& [left, right] : merges) text += left + ' ' + right + '\n';
  return text;
}

/// What GPT-2's file says, with this vocabulary.
inline nlohmann::json tokenizer_json(const Merges& merges) {
  nlohmann::json list = nlohmann::json::array();
  for (const auto& [left, right] : merges) list.push_back(left + ' ' + right);
  const nlohmann::json level{
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", nlohmann::json::array()},
          {"normalizer", nullptr},
          {"pre_tokenizer", level},
          {"post_processor", level},
          {"decoder", level},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", ""},
            {"end_of_word_suffix", ""},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", false},
            {"vocab", byte_vocabulary(merges, {})},
            {"merges", list}}}};
}

inline nlohmann::json added_token(Id id, const std::string& content, bool special,
                                  const nlohmann::json& more = nlohmann::json::object()) {
  nlohmann::json token{{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
                       {"rstrip", false}, {"normalized", false}, {"special", special}};
  token.update(more);
  return token;
}

}  // namespace eigenformer::test
