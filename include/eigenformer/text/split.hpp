// Cutting text into words by regular expressions, with ICU (link ICU::i18n and ICU::uc).
//
// Tokenizers were made with other engines (Oniguruma, Python's regex), so a pattern is accepted only if it is made of
// what all of them read alike. \s is written as Unicode's White_Space, which it is in those two, whatever it is in ICU.
#pragma once

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/regex.h>
#include <unicode/stringpiece.h>
#include <unicode/unistr.h>
#include <unicode/utext.h>
#include <unicode/utypes.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "eigenformer/core/error.hpp"

namespace eigenformer::inline EIGENFORMER_ABI::detail {

/// GPT-2's: a contraction, or a space and a run of letters, numbers or other marks, or white space, of which the last
/// character is left to the word that follows.
inline constexpr std::string_view gpt2_pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

/// Qwen's (https://huggingface.co/Qwen/Qwen2-7B), for LLaMA 3 with \p{N}{1,3}: a run of letters with any other mark
/// before it, digits one by one, line ends with the marks or the white space before them. Later ones count combining
/// marks as letters.
inline constexpr std::string_view qwen2_pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view qwen3_5_pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

inline constexpr std::string_view llama3_pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

/// Mistral's "tekken": a word has capitals at most at its beginning.
inline constexpr std::string_view tekken_pattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

/// A pattern in ICU's words; `problem` says what in it has no certain meaning.
inline std::string icu_pattern(std::string_view pattern, std::string& problem) {
  std::string result;
  int depth = 0;  // of sets
  for (std::size_t i = 0; i < pattern.size() && problem.empty(); ++i) {
    const char c = pattern[i];
    const std::string_view rest = pattern.substr(i);
    const auto follows = [&](auto... any) { return (rest.starts_with(any) || ...); };
    if (c == '\\') {
      const char escaped = rest.size() > 1 ? rest[1] : 'Q';
      const bool letter = (escaped >= '0' && escaped <= '9') || (escaped >= 'A' && escaped <= 'Z') ||
                          (escaped >= 'a' && escaped <= 'z');
      std::size_t length = 2;
      if (rest.starts_with("\\p{") || rest.starts_with("\\P{") || rest.starts_with("\\x{"))
        length = (std::min)(rest.find('}'), rest.size() - 1) + 1;
      if (escaped == 's') result.append(R"(\p{White_Space})");
      else if (escaped == 'S') result.append(R"(\P{White_Space})");
      else if (!letter || length > 2 || std::string_view("rntfdD").find(escaped) != std::string_view::npos)
        result.append(rest.substr(0, length));
      else problem = rest.substr(0, length);
      i += length - 1;
      continue;
    }
    if (c == '[') ++depth;
    if (c == ']' && depth > 0) --depth;
    if (depth == 0) {
      if (c == '.' || c == '^' || c == '$') problem = c;
      if (follows("}+")) problem = "}+";
      if (follows("(?") && !follows("(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:", "(?-i:"))
        problem = rest.substr(0, 3);
    } else if (follows("--")) {
      problem = "--";
    }
    result.push_back(c);
  }
  return result;
}

struct CloseUText {
  void operator()(UText* text) const { utext_close(text); }
};

/// One regular expression.
class Splitter {
 public:
  /// `problem` says what is wrong with the pattern, if anything is; then this is not to be used.
  Splitter(std::string_view pattern, std::string& problem) {
    std::string uncertain;
    const std::string translated = icu_pattern(pattern, uncertain);
    if (!uncertain.empty()) {
      problem = "regular expressions disagree about " + uncertain;
      return;
    }
    UErrorCode status = U_ZERO_ERROR;
    UParseError place{};
    pattern_.reset(icu::RegexPattern::compile(icu::UnicodeString::fromUTF8(translated), 0, place, status));
    if (U_FAILURE(status)) problem = std::string("ICU cannot read it: ") + u_errorName(status);
  }

  /// piece(part) for each match and for what lies between matches, in order; `text` is UTF-8.
  template <class F>
  void operator()(std::string_view text, F&& piece) const {
    UErrorCode status = U_ZERO_ERROR;
    const std::unique_ptr<UText, CloseUText> input(
        utext_openUTF8(nullptr, text.data(), static_cast<std::int64_t>(text.size()), &status));
    const std::unique_ptr<icu::RegexMatcher> matcher(pattern_->matcher(status));
    std::size_t done = 0;
    const auto pass = [&](std::size_t to) {
      if (to > done) piece(text.substr(done, to - done));
      done = to;
    };
    if (U_SUCCESS(status)) matcher->reset(input.get());
    while (U_SUCCESS(status) && matcher->find(status)) {
      const auto begin = static_cast<std::size_t>(matcher->start64(status)),
                 end = static_cast<std::size_t>(matcher->end64(status));
      if (U_FAILURE(status)) break;
      pass(begin);
      pass(end);
    }
    ensure(U_SUCCESS(status), "tokenizer", "text cannot be cut into words: ", u_errorName(status));
    pass(text.size());
  }

 private:
  std::shared_ptr<const icu::RegexPattern> pattern_;  // may be used by many threads
};

/// Unicode's canonical composition.
inline std::string compose(std::string_view text) {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* const normalizer = icu::Normalizer2::getNFCInstance(status);
  std::string result;
  icu::StringByteSink<std::string> sink(&result);
  if (U_SUCCESS(status))
    normalizer->normalizeUTF8(0, icu::StringPiece(text.data(), static_cast<std::int32_t>(text.size())), sink, nullptr,
                              status);
  ensure(U_SUCCESS(status), "tokenizer", "text cannot be normalized: ", u_errorName(status));
  return result;
}

}  // namespace eigenformer::detail
