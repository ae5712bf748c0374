// Byte-level byte-pair encoding: words, pieces and texts worked out by hand, merges against the plain definition.
#if __has_include(<unicode/regex.h>)
#include "eigenformer/text/byte_pair_tokenizer.hpp"

#include <gtest/gtest.h>
#include <unicode/uchar.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "eigenformer/text/byte_alphabet.hpp"
#include "eigenformer/text/split.hpp"
#include "text/byte_pair_support.hpp"
#include "text/support.hpp"

namespace eigenformer::test {
namespace {

using Words = std::vector<std::string>;

Words words_of(std::string_view pattern, const std::string& text) {
  std::string problem;
  const detail::Splitter split(pattern, problem);
  EXPECT_EQ(problem, "");
  Words words;
  if (!problem.empty()) return words;
  split(text, [&](std::string_view word) { words.emplace_back(word); });
  return words;
}

const char* const llama3_pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

TEST(SplitterTest, WordsOfGpt2) {
  const std::pair<std::string, Words> cases[] = {
      {"", {}},
      {"Hello world", {"Hello", " world"}},
      {"I'll we've it's don't I'm they'd you're",
       {"I", "'ll", " we", "'ve", " it", "'s", " don", "'t", " I", "'m", " they", "'d", " you", "'re"}},
      {"HE'S 'tis '", {"HE", "'", "S", " '", "tis", " '"}},  // contractions are small letters, and no space before
      {"'sa", {"'s", "a"}},
      {"a1b22 333", {"a", "1", "b", "22", " 333"}},
      {"x²Ⅷ½٣", {"x", "²Ⅷ½٣"}},  // category N: No, Nl, No, Nd
      {"привет мир 日本語テスト", {"привет", " мир", " 日本語テスト"}},
      {"ªᵃʰ", {"ªᵃʰ"}},                    // Lo, Lm
      {"e\u0301a", {"e", "\u0301", "a"}},  // a combining mark is neither letter nor number
      {"नमस्ते", {"नमस", "्", "त", "े"}},
      {"a...b!? \"c\"", {"a", "...", "b", "!?", " \"", "c", "\""}},
      {"🙂🙂 🙂x", {"🙂🙂", " 🙂", "x"}},
      {"a   b", {"a", "  ", " b"}},
      {"a  ", {"a", "  "}},
      {" ", {" "}},
      {"a \n\n b", {"a", " \n\n", " b"}},
      {"a\n\nb", {"a", "\n", "\n", "b"}},
      {"a\tb\t", {"a", "\t", "b", "\t"}},
      {"a\u00a0b\u00a0\u00a0c",
       {"a", "\u00a0", "b", "\u00a0", "\u00a0", "c"}},  // no space that a word could begin with
      {"\u3000\u2003!", {"\u3000", "\u2003", "!"}},
      {" \vb \u0085b \u2028b", {" ", "\v", "b", " ", "\u0085", "b", " ", "\u2028", "b"}},  // white space to Unicode
      {" \x1c"
       "b \x1f"
       "b \u200b"
       "b \u180e"
       "b",
       {" \x1c", "b", " \x1f", "b", " \u200b", "b", " \u180e", "b"}},  // and these are not
      {std::string("a\0b", 3), {"a", std::string(1, '\0'), "b"}},
      {"\U0001d400\U0001d7ce\U00020000", {"\U0001d400", "\U0001d7ce", "\U00020000"}},  // beyond the first plane
  };
  for (const auto& [text, words] : cases) EXPECT_EQ(words_of(detail::gpt2_pattern, text), words) << text;
}

TEST(SplitterTest, WordsOfLlama3) {
  const std::pair<std::string, Words> cases[] = {
      {"HE'S 12345\n\n  x", {"HE", "'S", " ", "123", "45", "\n\n", " ", " x"}},
      {"a'lL\tb,\r\n c", {"a", "'lL", "\tb", ",\r\n", " c"}},
      {"...foo  \n \n", {"...", "foo", "  \n \n"}},
      {" \vb", {" ", "\vb"}},
      {"\u0085\u0085", {"\u0085\u0085"}},
  };
  for (const auto& [text, words] : cases) EXPECT_EQ(words_of(llama3_pattern, text), words) << text;
}

TEST(SplitterTest, WordsOfQwen) {
  const std::pair<std::string, Words> cases[] = {
      {"IT'S 12345\n\n  x", {"IT", "'S", " ", "1", "2", "3", "4", "5", "\n\n", " ", " x"}},
      {"a'lL\tb,\r\n c", {"a", "'lL", "\tb", ",\r\n", " c"}},
      {"नमस्ते", {"नमस", "्त", "े"}},  // a combining mark is any other mark
  };
  for (const auto& [text, words] : cases) EXPECT_EQ(words_of(detail::qwen2_pattern, text), words) << text;
  EXPECT_EQ(words_of(detail::qwen3_5_pattern, "नमस्ते IT'S 12"), (Words{"नमस्ते", " IT", "'S", " ", "1", "2"}));
}

TEST(WhiteSpaceTest, IsUnicodes) {
  int wrong = 0;
  for (char32_t c = 0; c <= 0x10ffff; ++c)
    wrong += detail::white_space(c) != (u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_WHITE_SPACE) != 0);
  EXPECT_EQ(wrong, 0);
  EXPECT_TRUE(detail::begins_with_white_space("\u3000a"));
  for (const char* const other : {"", "a ", "\xa0", "\x85", "\xe3\x80"})
    EXPECT_FALSE(detail::begins_with_white_space(other));
}

TEST(SplitterTest, WhatIsBetweenMatchesIsAWordToo) {
  EXPECT_EQ(words_of(R"(\p{N})", "ab12c"), (Words{"ab", "1", "2", "c"}));
  EXPECT_EQ(words_of(R"(\s*)", "ab  c"), (Words{"a", "b", "  ", "c"}));
  EXPECT_EQ(words_of("x", "ab"), (Words{"ab"}));
  EXPECT_EQ(words_of(R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[\p{P}\p{S}]+)", "a.bc!?"),
            (Words{"a", ".bc", "!?"}));
  EXPECT_EQ(words_of(R"([^\S\n]+)", "a \n\v b"), (Words{"a", " ", "\n", "\v ", "b"}));
}

TEST(SplitterTest, PatternsThatEnginesReadDifferently) {
  const std::pair<const char*, const char*> cases[] = {
      {R"(\w+)", "disagree about \\w"},
      {R"(\bx)", "\\b"},
      {R"(\v)", "\\v"},
      {"a.b", "disagree about ."},
      {"^a", "disagree about ^"},
      {"a$", "disagree about $"},
      {R"(\d{1,3}+)", "}+"},
      {"(?x)a b", "(?x"},
      {"(?m:a)", "(?m"},
      {"[a--b]", "--"},
      {"a(?i)b|c", "(?i"},
      {R"(\x80)", "\\x"},
      {R"(\u00e9)", "\\u"},
      {"(a", "ICU cannot read it: U_REGEX_MISMATCHED_PAREN"},
      {R"(\p{Nonsense})", "ICU cannot read it"},
      {"a{9,1}", "ICU cannot read it"},
      {"\\", "disagree about \\"},
  };
  for (const auto& [pattern, reason] : cases) {
    std::string problem;
    const detail::Splitter split(pattern, problem);
    expect_contains(problem, reason);
  }
}

TEST(SplitterTest, LongTexts) {
  for (const std::string part : {"a", " ", "\n", "1", "!", "é", "\u0301", "'"}) {
    std::string text;
    while (text.size() < 300'000) text += part;
    std::string joined;
    for (const std::string& word : words_of(detail::gpt2_pattern, text)) joined += word;
    EXPECT_EQ(joined, text);
    joined.clear();
    for (const std::string& word : words_of(llama3_pattern, text)) joined += word;
    EXPECT_EQ(joined, text);
  }
}

class BytePairTokenizerTest : public testing::Test {
 protected:
  TemporaryFolder folder;

  BytePairTokenizer open(const Merges& merges, const BytePairConfig& config = {},
                         const std::vector<std::string>& more = {}) {
    replace_file(folder / "vocab.json", byte_vocabulary(merges, more).dump());
    replace_file(folder / "merges.txt", merges_text(merges));
    return {folder / "vocab.json", folder / "merges.txt", config};
  }
  BytePairTokenizer open_json(const nlohmann::json& json, const BytePairConfig& config = {}) {
    replace_file(folder / "tokenizer.json", json.dump());
    return BytePairTokenizer(folder / "tokenizer.json", config);
  }

  /// Pieces as the file spells them.
  Words pieces(const BytePairTokenizer& tokenizer, const std::string& text) {
    const nlohmann::json vocabulary = nlohmann::json::parse(read_file(folder / "vocab.json"));
    std::map<Id, std::string> spelled;
    for (const auto& [piece, id] : vocabulary.items()) spelled[id.get<Id>()] = piece;
    Words result;
    for (const Id id : tokenizer.encode(text)) result.push_back(spelled.at(id));
    return result;
  }
};

const Merges hello_merges{{"h", "e"},  {"l", "l"}, {"he", "ll"},  {"hell", "o"},  {"Ġ", "w"},
                          {"Ġw", "o"}, {"r", "l"}, {"Ġwo", "rl"}, {"Ġworl", "d"}, {"Ċ", "Ċ"}};

TEST_F(BytePairTokenizerTest, ByHand) {
  const auto tokenizer = open(hello_merges);
  EXPECT_EQ(tokenizer.size(), 266);
  EXPECT_EQ(tokenizer.find("Ġworld"), 264);
  EXPECT_EQ(tokenizer.find("Ġwor"), std::nullopt);
  EXPECT_EQ(tokenizer.bos(), std::nullopt);
  EXPECT_EQ(pieces(tokenizer, "hello world"), (Words{"hello", "Ġworld"}));
  EXPECT_EQ(pieces(tokenizer, "hellhe lll world"), (Words{"hell", "he", "Ġ", "ll", "l", "Ġworld"}));
  EXPECT_EQ(pieces(tokenizer, "Hello  wow"),
            (Words{"H", "e", "ll", "o", "Ġ", "Ġwo", "w"}));  // the word is "ello": no h
  EXPECT_EQ(pieces(tokenizer, "l\n\n\n"), (Words{"l", "ĊĊ", "Ċ"}));
  EXPECT_EQ(pieces(tokenizer, "é€"), (Words{"Ã", "©", "â", "Ĥ", "¬"}));
  EXPECT_EQ(tokenizer.encode(""), std::vector<Id>{});
  EXPECT_EQ(tokenizer.encode("hello"), (std::vector<Id>{259}));
  EXPECT_EQ(tokenizer.decode(std::vector<Id>{259, 264, 0xc3}), "hello world\xef\xbf\xbd");
  EXPECT_EQ(tokenizer.piece(264), " world");
  EXPECT_EQ(tokenizer.piece(0xc3), "\xc3");
  EXPECT_EQ(expect_streams(tokenizer, {-1, 259, 266, 264, 0x7fffffff}), "hello world");
}

TEST_F(BytePairTokenizerTest, OnlyUtf8IsEncoded) {
  const auto tokenizer = open(hello_merges);
  expect_contains(error_of([&] { tokenizer.encode("ab\xff"); }), "[tokenizer] the text is not UTF-8 at byte 2");
  expect_contains(error_of([&] { tokenizer.encode("\xed\xa0\x80"); }), "not UTF-8 at byte 0");
  expect_contains(error_of([&] { tokenizer.encode("abc\xe2\x82"); }), "not UTF-8 at byte 3");
}

TEST_F(BytePairTokenizerTest, RankThenPlace) {  // (a, ba) would come before (b, a), but its parts come after
  const auto tokenizer = open({{"a", "b"}, {"b", "a"}, {"a", "a"}, {"ab", "ab"}, {"ba", "b"}});
  EXPECT_EQ(pieces(tokenizer, "baba"), (Words{"b", "ab", "a"}));
  EXPECT_EQ(pieces(tokenizer, "aaa"), (Words{"aa", "a"}));
  EXPECT_EQ(pieces(tokenizer, "abababa"), (Words{"abab", "ab", "a"}));
  EXPECT_EQ(pieces(tokenizer, "bab"), (Words{"b", "ab"}));
}

TEST_F(BytePairTokenizerTest, ConfigOfVocabularyAndMerges) {
  const auto tokenizer =
      open(hello_merges, {.bos_piece = "<|end|>", .eos_piece = "<|end|>", .special = {"<|end|>"}, .prefix_space = true},
           {"<|end|>", "<|e"});
  EXPECT_EQ(tokenizer.size(), 268);
  EXPECT_EQ(tokenizer.bos(), 266);
  EXPECT_EQ(tokenizer.eos(), 266);
  EXPECT_EQ(pieces(tokenizer, "world<|end|>world world<|e"),
            (Words{"Ġworld", "<|end|>", "Ġworld", "Ġworld", "<", "|", "e"}));
  EXPECT_EQ(pieces(tokenizer, " world"), (Words{"Ġworld"}));
  EXPECT_EQ(tokenizer.encode(""), std::vector<Id>{});
  EXPECT_EQ(tokenizer.decode(std::vector<Id>{264, 266, 264, 267}), " world world<|e");
  expect_contains(error_of([&] { open(hello_merges, {.special = {"<|no|>"}}); }),
                  "vocab.json: the special piece \"<|no|>\" is not in the vocabulary");
  expect_contains(error_of([&] { open(hello_merges, {.eos_piece = "<|no|>"}); }),
                  "the eos piece \"<|no|>\" is not in the vocabulary");
  expect_contains(error_of([&] { open(hello_merges, {.special = {""}}); }), "a special piece is empty");
}

/// One merge at a time: the lowest rank anywhere, the leftmost of it.
Words plain_merges(const Merges& merges, Words pieces) {
  for (;;) {
    std::size_t best = merges.size(), place = 0;
    for (std::size_t i = 0; i + 1 < pieces.size(); ++i)
      for (std::size_t rank = 0; rank < best; ++rank)
        if (merges[rank].first == pieces[i] && merges[rank].second == pieces[i + 1]) best = rank, place = i;
    if (best == merges.size()) return pieces;
    pieces[place] += pieces[place + 1];
    pieces.erase(pieces.begin() + static_cast<std::ptrdiff_t>(place) + 1);
  }
}

TEST_F(BytePairTokenizerTest, LikeThePlainDefinition) {
  RandomSequence random(4);
  const std::vector<std::string> letters{"a", "b", "c", "é"};
  std::size_t merged = 0;
  for (int vocabulary = 0; vocabulary < 40; ++vocabulary) {
    std::vector<std::string> known{"a", "b", "c", "Ã", "©"};
    Merges merges;
    const auto any = [&] { return known[static_cast<std::size_t>(random.below(static_cast<Index>(known.size())))]; };
    while (merges.size() < 40) {
      const std::pair<std::string, std::string> merge{any(), any()};
      if (std::find(merges.begin(), merges.end(), merge) != merges.end() ||
          merge.first.size() + merge.second.size() > 12)
        continue;
      merges.push_back(merge);
      known.push_back(merge.first + merge.second);
    }
    if (vocabulary % 2 == 1) std::reverse(merges.begin(), merges.end());  // an order that no training gives
    const auto tokenizer = open(merges);
    for (int i = 0; i < 50; ++i) {
      const std::string text = random_text(random, letters, 40);  // one word
      Words bytes;
      for (const char c : text) bytes.push_back(to_byte_characters(std::string(1, c)));
      const Words expected = plain_merges(merges, bytes), actual = pieces(tokenizer, text);
      ASSERT_EQ(actual, expected);
      merged += bytes.size() - actual.size();
      EXPECT_EQ(expect_streams(tokenizer, tokenizer.encode(text)), text);
      expect_streams(tokenizer, random_ids(random, tokenizer.size(), 20));
    }
  }
  EXPECT_GT(merged, 5000u);
}

TEST_F(BytePairTokenizerTest, AnyTextComesBack) {
  const auto tokenizer = open(hello_merges);
  RandomSequence random(5);
  const std::vector<std::string> parts{"hello",  " ",      "world", "\n",     "'s",
                                       "é",      "日",     "🙂",  "\u0301", "1",
                                       "²",      "\u00a0", "\t",    "!",      std::string(1, '\0'),
                                       "\u0085", "Ġ"};
  for (int i = 0; i < 500; ++i) {
    const std::string text = random_text(random, parts, 20);
    EXPECT_EQ(expect_streams(tokenizer, tokenizer.encode(text)), text);
  }
}

TEST_F(BytePairTokenizerTest, LongWords) {  // a quadratic loop would take minutes
  const auto tokenizer = open({{"a", "a"}, {"aa", "aa"}});
  EXPECT_EQ(tokenizer.encode(std::string(400'000, 'a')).size(), 100'000u);
}

// ---- tokenizer.json --------------------------------------------------------------------------------------------

TEST_F(BytePairTokenizerTest, TokenizerJson) {
  for (const bool pairs : {false, true}) {  // both ways to write a merge
    auto json = tokenizer_json(hello_merges);
    if (pairs) {
      json["model"]["merges"] = nlohmann::json::array();
      for (const auto& [left, right] : hello_merges) json["model"]["merges"].push_back({left, right});
    }
    const auto tokenizer = open_json(json);
    EXPECT_EQ(tokenizer.encode("hello world  hello"), (std::vector<Id>{259, 264, ' ', ' ', 259}));
    EXPECT_EQ(tokenizer.bos(), std::nullopt);
    EXPECT_EQ(tokenizer.eos(), std::nullopt);
  }
  auto json = tokenizer_json(hello_merges);
  json["pre_tokenizer"]["add_prefix_space"] = true;
  EXPECT_EQ(open_json(json).encode("world"), (std::vector<Id>{264}));
  json["pre_tokenizer"]["use_regex"] = false;
  EXPECT_EQ(open_json(json).encode("world world\n\n"), (std::vector<Id>{264, 264, 265}));
}

TEST_F(BytePairTokenizerTest, AddedPieces) {
  auto json = tokenizer_json(hello_merges);
  json["added_tokens"] = {added_token(266, "<s>", true),
                          added_token(267, "<s>>", true),
                          added_token(268, "<mask>", true, {{"lstrip", true}}),
                          added_token(269, "<r>", false, {{"rstrip", true}}),
                          added_token(270, "s><", false),
                          added_token(259, "hello", false, {{"normalized", true}}),
                          added_token(271, "tool", false)};
  json["model"]["vocab"]["<s>"] = 266;
  const auto tokenizer = open_json(json);
  using Ids = std::vector<Id>;
  EXPECT_EQ(tokenizer.size(), 272);
  EXPECT_EQ(tokenizer.encode("<s>hell<s>>"), (Ids{266, 258, 267}));  // the longest
  EXPECT_EQ(tokenizer.encode("<<s><s"), (Ids{'<', 266, '<', 's'}));  // the leftmost
  EXPECT_EQ(tokenizer.encode("l \u00a0\n<mask> l"), (Ids{'l', 268, ' ', 'l'}));
  EXPECT_EQ(tokenizer.encode("\u3000<mask>"), (Ids{268}));
  EXPECT_EQ(tokenizer.encode("<r> \t <mask>  <r>"), (Ids{269, 268, ' ', ' ', 269}));
  EXPECT_EQ(tokenizer.encode("hello tool"), (Ids{259, ' ', 271}));
  EXPECT_EQ(tokenizer.find("<mask>"), 268);
  EXPECT_EQ(tokenizer.decode(Ids{266, 258, 269, 271, 259, 268, 267}),
            "hell<r>toolhello");  // special ones stand for no text
  RandomSequence random(6);
  const std::vector<std::string> parts{"<s>", ">", "<mask>", " ", "hello", "<r>", "\u3000", "é", "<"};
  for (int i = 0; i < 300; ++i) expect_streams(tokenizer, tokenizer.encode(random_text(random, parts, 12)));
}

TEST_F(BytePairTokenizerTest, WhiteSpaceBesideAddedPiecesIsNoToken) {
  auto json = tokenizer_json({});
  const nlohmann::json left{{"lstrip", true}}, both{{"lstrip", true}, {"rstrip", true}};
  json["added_tokens"] = {added_token(256, "<mask>", true, left), added_token(257, "<|a|>", true, both),
                          added_token(258, "<|b|>", true, both)};
  const auto tokenizer = open_json(json);
  EXPECT_EQ(tokenizer.encode("I <mask> u"), (std::vector<Id>{'I', 256, ' ', 'u'}));
  EXPECT_EQ(tokenizer.encode("   <|a|> <|b|>   "), (std::vector<Id>{257, 258}));
}

TEST_F(BytePairTokenizerTest, DigitsByThree) {  // LLaMA 3's words: GPT-2's would join 3333
  const Merges merges{{"3", "3"}, {"33", "3"}, {"33", "33"}, {"7", "7"}, {"77", "7"}};
  auto json = tokenizer_json(merges);
  json["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "Split"}, {"pattern", {{"Regex", llama3_pattern}}}, {"behavior", "Isolated"}, {"invert", false}},
        {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}}}}};
  for (const bool pairs : {false, true})
    for (const bool whole : {false, true}) {
      json["model"]["merges"] = nlohmann::json::array();
      for (const auto& [left, right] : merges) {
        if (pairs) json["model"]["merges"].push_back({left, right});
        else json["model"]["merges"].push_back(left + ' ' + right);
      }
      json["model"]["ignore_merges"] = whole;
      EXPECT_EQ(open_json(json).encode("3333+777?"), (std::vector<Id>{257, '3', '+', 260, '?'}));
    }
}

TEST_F(BytePairTokenizerTest, IdsOfAPaddedVocabularyAreNoText) {  // a model of 320, a tokenizer of 257
  const auto tokenizer = open({{"a", "b"}});
  EXPECT_EQ(tokenizer.size(), 257);
  EXPECT_EQ(expect_streams(tokenizer, {65, 300, 66}), "AB");
  TextStream stream(tokenizer);
  EXPECT_EQ(stream.next(0xc3), "");
  EXPECT_EQ(stream.next(319), "");  // what was begun is held back
  EXPECT_EQ(stream.next(0xa9), "é");
}

TEST_F(BytePairTokenizerTest, NormalizedText) {
  auto json = tokenizer_json({{"Ã", "©"}});
  const std::string decomposed = "e\u0301", composed = "é";
  EXPECT_EQ(open_json(json).encode(decomposed), (std::vector<Id>{'e', 0xcc, 0x81}));
  json["normalizer"] = {{"type", "NFC"}};
  EXPECT_EQ(open_json(json).encode(decomposed + composed), (std::vector<Id>{256, 256}));
  json["normalizer"] = {{"type", "Sequence"}, {"normalizers", nlohmann::json::array({{{"type", "NFC"}}})}};
  json["added_tokens"] = {added_token(257, "<" + decomposed, false, {{"normalized", true}}),
                          added_token(258, ">" + decomposed, false)};
  const auto tokenizer = open_json(json);
  EXPECT_EQ(tokenizer.encode("<" + composed + "<" + decomposed), (std::vector<Id>{257, 257}));
  EXPECT_EQ(tokenizer.encode(">" + composed + ">" + decomposed), (std::vector<Id>{'>', 256, 258}));
  EXPECT_EQ(tokenizer.encode("한국어 Å"), tokenizer.encode("\u1112\u1161\u11ab\u1100\u116e\u11a8\u110b\u1165 \u212b"));
}

TEST_F(BytePairTokenizerTest, WordsThatArePieces) {  // LLaMA 3's ignore_merges
  auto json = tokenizer_json(hello_merges);
  json["model"]["vocab"]["Ġhow"] = 266;
  EXPECT_EQ(open_json(json).encode(" how how"), (std::vector<Id>{' ', 'h', 'o', 'w', ' ', 'h', 'o', 'w'}));
  json["model"]["ignore_merges"] = true;
  json["added_tokens"] = {added_token(267, "Ġhell", false),
                          added_token(266, "Ġhow", false)};  // found as it is spelled, and never as a word
  const auto tokenizer = open_json(json);
  EXPECT_EQ(tokenizer.encode(" how hello hell"), (std::vector<Id>{266, ' ', 259, ' ', 258}));
  EXPECT_EQ(tokenizer.encode("ĠhellĠhow"), (std::vector<Id>{267, 266}));
  EXPECT_EQ(tokenizer.decode(std::vector<Id>{267, 266}), "Ġhell how");
}

TEST_F(BytePairTokenizerTest, SplitsOfTheirOwn) {
  auto json = tokenizer_json(hello_merges);
  const nlohmann::json level{
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
  const auto split = [](const char* pattern) {
    return nlohmann::json{
        {"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
  };
  json["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {split(llama3_pattern), level}}};
  EXPECT_EQ(open_json(json).encode("hello world\n\n"), (std::vector<Id>{259, 264, 265}));
  json["pre_tokenizer"]["pretokenizers"] = nlohmann::json::array({split("l"), level});
  EXPECT_EQ(open_json(json).encode("hello"), (std::vector<Id>{256, 'l', 'l', 'o'}));
  json["pre_tokenizer"]["pretokenizers"] = {split("l"), split("e"), level};
  EXPECT_EQ(open_json(json).encode("hello"), (std::vector<Id>{'h', 'e', 'l', 'l', 'o'}));
  json["pre_tokenizer"]["pretokenizers"] = {{{"type", "Digits"}, {"individual_digits", true}}, level};
  EXPECT_EQ(open_json(json).encode("hello12"), (std::vector<Id>{259, '1', '2'}));
  auto with_space = level;
  with_space["add_prefix_space"] = true;
  json["pre_tokenizer"]["pretokenizers"] = {split("!"), with_space};
  EXPECT_EQ(open_json(json).encode("world! world"), (std::vector<Id>{264, ' ', '!', 264}));
}

TEST_F(BytePairTokenizerTest, MarksAroundTheText) {
  auto json = tokenizer_json(hello_merges);
  json["added_tokens"] = {added_token(266, "<s>", true), added_token(267, "</s>", true)};
  json["post_processor"] = {{"type", "RobertaProcessing"},
                            {"cls", {"<s>", 266}},
                            {"sep", {"</s>", 267}},
                            {"trim_offsets", true},
                            {"add_prefix_space", false}};
  const auto roberta = open_json(json);
  EXPECT_EQ(roberta.encode("hello"), (std::vector<Id>{266, 259, 267}));
  EXPECT_EQ(roberta.encode(""), (std::vector<Id>{266, 267}));
  EXPECT_EQ(roberta.bos(), 266);
  EXPECT_EQ(roberta.eos(), 267);
  EXPECT_EQ(roberta.decode(std::vector<Id>{266, 259, 267}), "hello");

  const nlohmann::json begin{{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}},
      text{{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const nlohmann::json marks{{"type", "TemplateProcessing"},
                             {"single", {begin, text}},
                             {"pair", {begin, text}},
                             {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", {266}}, {"tokens", {"<s>"}}}}}}};
  json["post_processor"] = {
      {"type", "Sequence"},
      {"processors", {{{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", false}}, marks}}};
  const auto llama = open_json(json, {.eos_piece = "</s>"});
  EXPECT_EQ(llama.encode("hello<s>"), (std::vector<Id>{266, 259, 266}));
  EXPECT_EQ(llama.bos(), 266);
  EXPECT_EQ(llama.eos(), 267);
  EXPECT_EQ(open_json(json).eos(), std::nullopt);
}

}  // namespace
}  // namespace eigenformer::test
#endif
