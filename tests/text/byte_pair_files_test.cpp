// Files of byte-pair tokenizers that are broken, or say what we do not understand: each an Error with the file and the
// reason.
#if __has_include(<unicode/regex.h>)
#include "eigenformer/text/byte_pair_files.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "eigenformer/text/byte_pair_tokenizer.hpp"
#include "text/byte_pair_support.hpp"
#include "text/support.hpp"

namespace eigenformer::test {
namespace {

class BytePairFilesTest : public testing::Test {
 protected:
  TemporaryFolder folder;
  std::filesystem::path json = folder / "tokenizer.json", vocabulary = folder / "vocab.json",
                        merges = folder / "merges.txt";

  std::string refusal(const std::string& text) {
    replace_file(json, text);
    const std::string message = error_of([&] { BytePairTokenizer{json}; });
    expect_contains(message, "[tokenizer] " + json.string() + ": ");
    EXPECT_LT(message.size(), 3000u);
    return message;
  }
  std::string refusal(const std::string& vocabulary_text, const std::string& merges_text,
                      const std::filesystem::path& culprit) {
    replace_file(vocabulary, vocabulary_text);
    replace_file(merges, merges_text);
    const std::string message = error_of([&] { BytePairTokenizer(vocabulary, merges); });
    expect_contains(message, "[tokenizer] " + culprit.string() + ": ");
    return message;
  }
};

TEST_F(BytePairFilesTest, Vocabularies) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "not valid JSON at byte 1"},
      {"{", "not valid JSON at byte 2"},
      {R"({"a":0)", "not valid JSON at byte"},
      {R"({"a":0}})", "not valid JSON at byte 8"},
      {std::string("{\"a\":0}\0", 8), "contains a NUL byte"},
      {"{\"\xff\":0}", "not valid JSON"},
      {R"({"a":1e999})", "not valid JSON"},
      {std::string(200'000, '['), "not valid JSON"},
      {"{}", "the vocabulary is empty"},
      {"[]", "the file is an array of 0: it must be an object"},
      {"null", "the file is null: it must be an object"},
      {R"({"a":-1})", "\"a\" is -1: it must be a whole number from 0 to 2147483646"},
      {R"({"a":1.0})", "\"a\" is 1.0: it must be"},
      {R"({"a":2147483647})", "\"a\" is 2147483647: it must be"},
      {R"({"a":18446744073709551616})", "it must be"},
      {R"({"a":"1"})", "\"a\" is \"1\": it must be"},
      {R"({"a":[[]]})", "\"a\" is an array of 1: it must be"},
      {R"({"a":true})", "\"a\" is true: it must be"},
      {R"({"a":7,"b":7})", "two pieces have the id 7, one of them \"b\""},
  };
  for (const auto& [text, reason] : cases) expect_contains(refusal(text, "", vocabulary), reason);
  EXPECT_LT(refusal("{\"" + std::string(5000, 'x') + "\":[]}", "", vocabulary).size(), 500u);
  std::filesystem::remove(vocabulary);
  expect_contains(error_of([&] { BytePairTokenizer(vocabulary, merges); }), "vocab.json: there is no such file");
}

TEST_F(BytePairFilesTest, MergesOfText) {
  const std::string pieces = R"({"a":0,"b":1,"ab":2})";
  const std::pair<std::string, std::string> cases[] = {
      {"ab\n", "line 1 is \"ab\", not two pieces with a space between them"},
      {"#version: 0.2\na b\na b c\n", "line 3 is \"a b c\", not two"},
      {"#version: 0.2\na b\n\na b\n", "line 3 is \"\", not two"},
      {"a b\n#version: 0.2\n", "merge 1 joins \"#version:\" and \"0.2\", but the first is no piece"},
      {"a \n", "merge 0 joins \"a\" and \"\", but the second is no piece of the vocabulary"},
      {" b\n", "merge 0 joins \"\" and \"b\", but the first is no piece of the vocabulary"},
      {"a b\na c\n", "merge 1 joins \"a\" and \"c\", but the second is no piece of the vocabulary"},
      {"a b\nb a\n", "merge 1 joins \"b\" and \"a\", but the result is no piece of the vocabulary"},
      {"a \xff\n", "line 1 is \"a \xff\", not two"},
  };
  for (const auto& [text, reason] : cases) expect_contains(refusal(pieces, text, merges), reason);
  expect_contains(refusal(R"({"a":0,"":1})", "a \n", merges),
                  "merge 0 joins \"a\" and \"\"");  // it would go on forever
  for (const std::string text :
       {"", "#version: 0.2", "#version: 0.2\n", "a b", "a b\n", "a b\r\n", "#version: 0.2\r\na b\r\n"}) {
    replace_file(vocabulary, pieces);
    replace_file(merges, text);
    EXPECT_EQ(BytePairTokenizer(vocabulary, merges).encode("ab").size(), text.find('b') == std::string::npos ? 2u : 1u);
  }
  std::filesystem::remove(merges);
  expect_contains(error_of([&] { BytePairTokenizer(vocabulary, merges); }), "merges.txt: there is no such file");
}

TEST_F(BytePairFilesTest, BytesAndIdsWithoutAPiece) {
  replace_file(vocabulary, R"({"a":5,"b":100000000})");
  replace_file(merges, "");
  const BytePairTokenizer tokenizer(vocabulary, merges);
  EXPECT_EQ(tokenizer.size(), 100'000'001);  // and no such table
  expect_contains(error_of([&] { tokenizer.encode("ac"); }),
                  "[tokenizer] byte 99 of the text has no piece in the vocabulary");
  EXPECT_EQ(tokenizer.decode(std::vector<Id>{6, 5, -1, 100'000'000, 100'000'001}), "ab");
}

TEST_F(BytePairFilesTest, WhatWeDoNotUnderstand) {
  using Change = std::function<void(nlohmann::json&)>;
  const auto split = [](const char* pattern) {
    return nlohmann::json{
        {"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
  };
  const auto set = [](const char* where, const nlohmann::json& value) {
    return Change([where, value](nlohmann::json& file) { file[nlohmann::json::json_pointer(where)] = value; });
  };
  const auto without = [](const char* key) { return Change([key](nlohmann::json& file) { file.erase(key); }); };
  const auto list = [](std::vector<nlohmann::json> elements) {
    return nlohmann::json(std::move(elements));
  };  // one element stays a list
  const auto words = [&](std::vector<nlohmann::json> parts) {
    return set("/pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", list(std::move(parts))}});
  };
  const auto level = tokenizer_json({})["pre_tokenizer"];
  const auto changed = [](nlohmann::json object, const char* key, const nlohmann::json& value) {
    object[key] = value;
    return object;
  };
  const nlohmann::json begin{{"SpecialToken", {{"id", "a"}}}}, text{{"Sequence", {{"id", "A"}}}},
      second{{"Sequence", {{"id", "B"}}}};
  const auto marks = [&](std::vector<nlohmann::json> single) {
    return set("/post_processor", {{"type", "TemplateProcessing"},
                                   {"single", list(std::move(single))},
                                   {"special_tokens", {{"a", {{"ids", {97}}}}}}});
  };
  const std::pair<Change, std::string> cases[] = {
      {set("/extra", 1), "\"extra\" is 1: this key is not understood"},
      {without("model"), "model.type is null: only BPE is understood"},
      {set("/model", nullptr), "model.type is null"},
      {set("/model/type", "WordPiece"), "model.type is \"WordPiece\": only BPE is understood"},
      {set("/model/dropout", 0.1), "model.dropout is 0.1: the result must not be random"},
      {set("/model/continuing_subword_prefix", "##"), "model.continuing_subword_prefix is \"##\": it must be empty"},
      {set("/model/end_of_word_suffix", "</w>"), "model.end_of_word_suffix is \"</w>\": it must be empty"},
      {set("/model/byte_fallback", true), "model.byte_fallback is true: bytes are letters here"},
      {set("/model/ignore_merges", 1), "model.ignore_merges is 1: it must be true or false"},
      {set("/model/other", false), "model.\"other\" is false: this key is not understood"},
      {set("/model/vocab", nlohmann::json::array()), "model.vocab is an array of 0: it must be an object"},
      {set("/model/vocab", nlohmann::json::object()), "the vocabulary is empty"},
      {set("/model/vocab/a", "x"), "model.vocab.\"a\" is \"x\": it must be a whole number"},
      {set("/model/merges", nullptr), "model.merges is null: it must be an array"},
      {set("/model/merges", list({"a"})), "model.merges.0 is \"a\": a merge is two pieces with a space between them"},
      {set("/model/merges", list({1})), "model.merges.0 is 1: it must be a string"},
      {set("/model/merges", list({{"a", "b", "c"}})), "model.merges.0 is an array of 3: a merge has two parts"},
      {set("/model/merges", list({{"a", 1}})), "model.merges.0.1 is 1: it must be a string"},
      {set("/model/merges", list({"a b"})), "merge 0 joins \"a\" and \"b\", but the result is no piece"},
      {set("/added_tokens", 1), "added_tokens is 1: it must be an array"},
      {set("/added_tokens", list({1})), "added_tokens.0 is 1: it must be an object"},
      {set("/added_tokens", list({added_token(300, "x y", false, {{"single_word", true}})})),
       "added_tokens.0.single_word is true: words around it"},
      {set("/added_tokens", list({added_token(300, "", false)})),
       "added_tokens.0.content is \"\": it must not be empty"},
      {set("/added_tokens", list({added_token(300, "x", false, {{"color", 1}})})),
       "added_tokens.0.\"color\" is 1: this key is not understood"},
      {set("/added_tokens", list({added_token(300, "a", false)})), "the piece \"a\" has two ids"},
      {set("/added_tokens", list({added_token(97, "b c", false)})), "two pieces have the id 97, one of them \"b c\""},
      {set("/added_tokens", list({added_token(-1, "b c", false)})),
       "added_tokens.0.id is -1: it must be a whole number"},
      {set("/normalizer", {{"type", "NFKC"}}), "normalizer.type is \"NFKC\": only NFC is understood"},
      {set("/normalizer", {{"type", "NFC"}, {"more", 1}}), "normalizer.\"more\" is 1"},
      {set("/normalizer", {{"type", "Sequence"}, {"normalizers", list({{{"type", "Lowercase"}}})}}),
       "normalizer.normalizers.0.type is \"Lowercase\": only NFC"},
      {set("/normalizer", "NFC"), "normalizer.type is null: it must be a string"},
      {without("pre_tokenizer"), "pre_tokenizer.type is null: it must be a string"},
      {set("/pre_tokenizer", {{"type", "Metaspace"}}),
       "pre_tokenizer.type is \"Metaspace\": only Sequence, Split, Digits and ByteLevel"},
      {set("/pre_tokenizer/add_prefix_space", nullptr),
       "pre_tokenizer.add_prefix_space is null: it must be true or false"},
      {set("/pre_tokenizer/lower", true), "pre_tokenizer.\"lower\" is true: this key"},
      {words({}), "pre_tokenizer is an object of 2: there is no ByteLevel in it"},
      {words({split("x")}), "there is no ByteLevel in it"},
      {words({level, split("x")}), "pre_tokenizer.pretokenizers.1 is an object of 4: nothing may come after ByteLevel"},
      {words({changed(split("x"), "behavior", "Removed"), level}),
       "pre_tokenizer.pretokenizers.0.behavior is \"Removed\": only Isolated"},
      {words({changed(split("x"), "invert", true), level}),
       "pre_tokenizer.pretokenizers.0.invert is true: it must be false"},
      {words({changed(split("x"), "pattern", {{"String", "x"}}), level}),
       "pre_tokenizer.pretokenizers.0.pattern.\"String\" is \"x\": this key"},
      {words({split(R"(\w+)"), level}),
       R"(pre_tokenizer.pretokenizers.0.pattern.Regex is "\w+": regular expressions disagree about \w)"},
      {words({split("(x"), level}), "pattern.Regex is \"(x\": ICU cannot read it: U_REGEX_MISMATCHED_PAREN"},
      {set("/post_processor", {{"type", "Other"}}),
       "post_processor.type is \"Other\": only Sequence, ByteLevel, TemplateProcessing"},
      {set("/post_processor", {{"type", "BertProcessing"}, {"cls", {"a", 97, 1}}, {"sep", {"b", 98}}}),
       "post_processor.cls is an array of 3: it must be a piece"},
      {set("/post_processor", {{"type", "BertProcessing"}, {"cls", {"a", 300}}, {"sep", {"b", 98}}}),
       "the post_processor puts id 300, which is in no vocabulary"},
      {marks({}), "post_processor.single is an array of 0: the text must occur once"},
      {marks({text, text}), "post_processor.single.1.Sequence.id is \"A\": the text must occur once"},
      {marks({text, second}), "post_processor.single.1.Sequence.id is \"B\": the text must occur once"},
      {marks({begin}), "the text must occur once"},
      {marks({{{"SpecialToken", {{"id", "b"}}}}, text}),
       "post_processor.special_tokens.b.ids is null: it must be an array"},
      {without("decoder"), "decoder.type is null: only ByteLevel is understood"},
      {set("/decoder/type", "WordPiece"), "decoder.type is \"WordPiece\": only ByteLevel is understood"},
  };
  replace_file(json, tokenizer_json({}).dump());
  BytePairTokenizer{json};
  for (const auto& [change, reason] : cases) {
    auto file = tokenizer_json({});
    change(file);
    SCOPED_TRACE(reason);
    expect_contains(refusal(file.dump()), reason);
  }
  std::string nested = "{\"type\":\"NFC\"}";
  for (int i = 0; i < 101; ++i) nested = R"({"type":"Sequence","normalizers":[)" + nested + "]}";
  auto deep = tokenizer_json({});
  deep["normalizer"] = nlohmann::json::parse(nested);
  expect_contains(refusal(deep.dump()), "there are more than 100 Sequences");
  expect_contains(refusal(std::string(300'000, '[') + std::string(300'000, ']')), "it must be an object");
}

TEST_F(BytePairFilesTest, WhatChangesNothingIsAccepted) {
  auto file = tokenizer_json({});
  file["padding"] = {{"strategy", {{"Fixed", 5}}}, {"direction", "Right"}, {"pad_id", 0}};
  file["truncation"] = {{"direction", "Right"}, {"max_length", 2}, {"strategy", "LongestFirst"}, {"stride", 0}};
  file["model"]["unk_token"] = "<unk>";
  file["model"]["fuse_unk"] = true;
  file["model"]["continuing_subword_prefix"] = nullptr;
  file["normalizer"] = {{"type", "Sequence"}, {"normalizers", nlohmann::json::array()}};
  file["post_processor"] = nullptr;
  file["pre_tokenizer"].erase("use_regex");
  for (const char* const key : {"version", "added_tokens"}) file.erase(key);
  for (const char* const key : {"dropout", "end_of_word_suffix", "byte_fallback", "ignore_merges"})
    file["model"].erase(key);
  replace_file(json, file.dump());
  EXPECT_EQ(BytePairTokenizer(json).encode("a b"), (std::vector<Id>{'a', ' ', 'b'}));
}

/// Every one of these changes is an Error, or a tokenizer that works.
template <class Open>
int count_valid(std::string text, int changes, Open&& open) {
  RandomSequence random(7);
  int valid = 0;
  const std::string likely = "\"\\{}[]:,0-9.eanul tfr\xc3\xff ";
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char original = text[at];
    for (int i = 0; i < changes; ++i) {
      text[at] = i % 2 == 0 ? likely[static_cast<std::size_t>(random.below(static_cast<Index>(likely.size())))]
                            : static_cast<char>(static_cast<unsigned char>(random.below(256)));
      try {
        const BytePairTokenizer tokenizer = open(text);
        std::vector<Id> ids = tokenizer.encode("abab  a1\n");
        expect_streams(tokenizer, ids);
        ++valid;
      } catch (const Error&) {
      }
    }
    text[at] = original;
  }
  return valid;
}

TEST_F(BytePairFilesTest, AnyChangeOfAByte) {
  auto file = tokenizer_json({});
  file["model"]["vocab"] = {{"a", 0}, {"b", 1}, {"Ġ", 2}, {"1", 3}, {"Ċ", 4}, {"ab", 5}, {"abab", 6}};
  file["model"]["merges"] = {"a b", "ab ab"};
  file["added_tokens"] = {added_token(7, "<s>", true), added_token(8, "é", false, {{"normalized", true}})};
  file["normalizer"] = {{"type", "NFC"}};
  file["pre_tokenizer"] = {{"type", "Sequence"},
                           {"pretokenizers",
                            {{{"type", "Split"},
                              {"pattern", {{"Regex", R"((?i:'s)|[^\r\n\p{L}]?\p{L}+|\p{N}{1,3}|\s+(?!\S))"}}},
                              {"behavior", "Isolated"},
                              {"invert", false}},
                             file["pre_tokenizer"]}}};
  file["post_processor"] = {{"type", "TemplateProcessing"},
                            {"single", {{{"SpecialToken", {{"id", "<s>"}}}}, {{"Sequence", {{"id", "A"}}}}}},
                            {"special_tokens", {{"<s>", {{"ids", {7}}}}}}};
  const std::string text = file.dump(), pieces = file["model"]["vocab"].dump(), rules = "#version: 0.2\na b\nab ab\n";
  replace_file(json, text);
  EXPECT_EQ(BytePairTokenizer(json).encode("abab  a1\n"), (std::vector<Id>{7, 6, 2, 2, 0, 3, 4}));
  EXPECT_GT(count_valid(text, 4,
                        [&](const std::string& changed) {
                          replace_file(json, changed);
                          return BytePairTokenizer(json);
                        }),
            50);
  replace_file(merges, rules);
  EXPECT_GT(count_valid(pieces, 20,
                        [&](const std::string& changed) {
                          replace_file(vocabulary, changed);
                          return BytePairTokenizer(vocabulary, merges);
                        }),
            10);
  replace_file(vocabulary, pieces);
  EXPECT_GT(count_valid(rules, 40,
                        [&](const std::string& changed) {
                          replace_file(merges, changed);
                          return BytePairTokenizer(vocabulary, merges);
                        }),
            10);
}

TEST_F(BytePairFilesTest, TruncatedAnywhere) {
  const std::string text = tokenizer_json({{"a", "b"}}).dump();
  for (std::size_t size = 0; size < text.size(); size += 7)
    expect_contains(refusal(text.substr(0, size)), "not valid JSON at byte");
  const std::string pieces = byte_vocabulary({{"a", "b"}}, {}).dump();
  for (std::size_t size = 0; size < pieces.size(); size += 7)
    expect_contains(refusal(pieces.substr(0, size), "a b\n", vocabulary), "not valid JSON at byte");
}

}  // namespace
}  // namespace eigenformer::test
#endif
