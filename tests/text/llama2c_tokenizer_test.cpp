// Vocabularies of llama2.c: by hand, against the plain definition, against reference ids, and broken.
#include "eigenformer/text/llama2c_tokenizer.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "support/shared_data.hpp"
#include "text/support.hpp"

namespace eigenformer::test {
namespace {

/// That program's loop: all pairs are looked at, the best is merged, until there is none.
std::vector<Id> plain_llama2c(const std::vector<ScoredPiece>& pieces, const std::string& text) {
  const auto lookup = [&](const std::string& piece) {
    for (std::size_t i = 0; i < pieces.size(); ++i)
      if (pieces[i].text == piece) return static_cast<Id>(i);
    return Id{-1};
  };
  std::vector<Id> ids{1};
  const auto put = [&](const std::string& character) {
    if (const Id id = lookup(character); id != -1) return ids.push_back(id);
    for (const char c : character) ids.push_back(static_cast<unsigned char>(c) + 3);
  };
  if (!text.empty()) put(" ");
  std::string character;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto continues = [&](std::size_t at) { return at < text.size() && (text[at] & 0xc0) == 0x80; };
    if (!continues(i)) character.clear();
    character += text[i];
    if (continues(i + 1) && character.size() < 4) continue;
    put(character);
    character.clear();
  }
  for (;;) {
    float best = -1e10f;
    std::size_t place = 0;
    Id merged = -1;
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
      const Id id =
          lookup(pieces[static_cast<std::size_t>(ids[i])].text + pieces[static_cast<std::size_t>(ids[i + 1])].text);
      if (id == -1 || !(pieces[static_cast<std::size_t>(id)].score > best)) continue;
      best = pieces[static_cast<std::size_t>(id)].score, place = i, merged = id;
    }
    if (merged == -1) return ids;
    ids[place] = merged;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(place) + 1);
  }
}

class Llama2cTokenizerTest : public testing::Test {
 protected:
  TemporaryFolder folder;
  std::filesystem::path path = folder / "tok.bin";

  Llama2cTokenizer open(const std::string& bytes) {
    replace_file(path, bytes);
    return Llama2cTokenizer(path);
  }
  Llama2cTokenizer open(const std::vector<ScoredPiece>& pieces) { return open(llama2c_bytes(pieces, 12)); }

  std::string refusal(const std::string& bytes) {
    const std::string message = error_of([&] { open(bytes); });
    expect_contains(message, "[tokenizer] " + path.string() + ": ");
    return message;
  }
};

TEST_F(Llama2cTokenizerTest, ByHand) {
  const auto tokenizer = open(llama2c_pieces({{" ", -9},
                                              {"a", -9},
                                              {"b", -9},
                                              {"c", -9},
                                              {"ab", -2},
                                              {"bc", -1},
                                              {"abc", -3},
                                              {" a", -4},
                                              {"é", -9},
                                              {"never", -9},
                                              {"aa", -2}}));
  enum : Id { space = 259, a, b, c, ab, bc, abc, space_a, e_acute, never, aa };
  EXPECT_EQ(tokenizer.size(), 270);
  EXPECT_EQ(tokenizer.bos(), 1);
  EXPECT_EQ(tokenizer.eos(), 2);
  EXPECT_EQ(tokenizer.find("abc"), abc);
  EXPECT_EQ(tokenizer.find("abd"), std::nullopt);
  using Ids = std::vector<Id>;
  EXPECT_EQ(tokenizer.encode(""), (Ids{1}));
  EXPECT_EQ(tokenizer.encode("abc"), (Ids{1, space, abc}));  // bc, then a + bc
  EXPECT_EQ(tokenizer.encode("ab"), (Ids{1, space, ab}));    // before " a"
  EXPECT_EQ(tokenizer.encode("a"), (Ids{1, space_a}));
  EXPECT_EQ(tokenizer.encode("caaa"), (Ids{1, space, c, aa, a}));  // the leftmost among equals
  EXPECT_EQ(tokenizer.encode("aé"), (Ids{1, space_a, e_acute}));
  EXPECT_EQ(tokenizer.encode("z€"), (Ids{1, space, 'z' + 3, 0xe2 + 3, 0x82 + 3, 0xac + 3}));
  EXPECT_EQ(tokenizer.encode(std::string(1, '\0')), (Ids{1, space, 3}));
  EXPECT_EQ(tokenizer.encode("\xff\xc3"), (Ids{1, space, 0xff + 3, 0xc3 + 3}));
  EXPECT_EQ(tokenizer.encode("never"), (Ids{1, space, 'n' + 3, 'e' + 3, 'v' + 3, 'e' + 3, 'r' + 3}));

  EXPECT_EQ(tokenizer.decode(Ids{1, space_a, space_a, e_acute}), "a aé");
  EXPECT_EQ(tokenizer.decode(Ids{space_a}), " a");
  EXPECT_EQ(tokenizer.decode(Ids{1, 'z' + 3, 0xe2 + 3, 0x82 + 3, 0xac + 3, 2, 1, space_a}), "z€a");
  EXPECT_EQ(tokenizer.decode(Ids{0xe2 + 3, 0x82 + 3, a}),
            "\xef\xbf\xbd"
            "a");
  EXPECT_EQ(tokenizer.piece(space_a), " a");
  EXPECT_EQ(tokenizer.piece(space_a, 1), "a");
  EXPECT_EQ(tokenizer.piece(space_a, a), " a");
  EXPECT_EQ(tokenizer.piece(0xe2 + 3, 1), "\xe2");
  for (const Id none : {270, -1, 0x7fffffff})
    EXPECT_EQ(expect_streams(tokenizer, {1, none, space_a, none, e_acute}), "aé");
}

TEST_F(Llama2cTokenizerTest, WhatIsNeverMerged) {
  const float infinity = std::numeric_limits<float>::infinity();
  const auto tokenizer = open(llama2c_pieces(
      {{" ", 0}, {"a", 0}, {"b", 0}, {"ab", -1e10f}, {"ba", -infinity}, {"aa", infinity}, {"bb", -9e9f}, {"aa", 0}}));
  EXPECT_EQ(tokenizer.encode("abab"), (std::vector<Id>{1, 259, 260, 261, 260, 261}));
  EXPECT_EQ(tokenizer.encode("bbaa"), (std::vector<Id>{1, 259, 265, 264}));  // the first of equal pieces
}

TEST_F(Llama2cTokenizerTest, WithoutAPieceForTheSpace) {
  const auto tokenizer = open(llama2c_pieces({{"a", 0}}));
  EXPECT_EQ(tokenizer.encode("a"), (std::vector<Id>{1, ' ' + 3, 259}));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("a")),
            " a");  // as there: it is a byte, not a piece that begins with a space
}

TEST_F(Llama2cTokenizerTest, LikeThePlainDefinition) {
  RandomSequence random(2);
  const std::vector<std::string> letters{"a", "b", "c", " ", "é", "€", "\xff", "\x80", "\xe2"};
  Index merged = 0;
  for (int vocabulary = 0; vocabulary < 60; ++vocabulary) {
    std::vector<ScoredPiece> pieces;
    for (const std::string& letter : letters)
      if (random.below(8) > 0) pieces.push_back({letter, 0});
    for (int i = 0; i < 60; ++i) {  // few scores: many equals; pieces that cannot be reached, pieces twice
      std::string text = random_text(random, letters, 4);
      if (vocabulary % 2 == 1 && random.below(2) > 0) text = (pieces.empty() ? "a" : pieces.back().text) + text;
      if (!text.empty() && text.size() <= 12)
        pieces.push_back({text, -static_cast<float>(random.below(vocabulary < 30 ? 4 : 1000))});
    }
    const std::vector<ScoredPiece> all = llama2c_pieces(pieces);
    const auto tokenizer = open(all);
    for (int i = 0; i < 25; ++i) {
      const std::string text = random_text(random, letters, 40);
      const std::vector<Id> ids = tokenizer.encode(text);
      ASSERT_EQ(ids, plain_llama2c(all, text)) << text;
      merged += static_cast<Index>(text.size()) - static_cast<Index>(ids.size());
      expect_streams(tokenizer, ids);
      expect_streams(tokenizer, random_ids(random, tokenizer.size(), 20));
    }
  }
  EXPECT_GT(merged, 5000);
}

TEST_F(Llama2cTokenizerTest, LongTexts) {  // a quadratic loop would take minutes
  const auto tokenizer =
      open(llama2c_pieces({{" ", 0}, {"a", 0}, {"b", 0}, {"aa", -1}, {"aaaa", -2}, {"ab", -3}, {"aaaab", -4}}));
  std::vector<Id> ids{1, 259};
  ids.resize(2 + 100'000, 263);
  EXPECT_EQ(tokenizer.encode(std::string(400'000, 'a')), ids);
}

TEST_F(Llama2cTokenizerTest, EncodesAsTheReference) {
  const auto data = shared_data() / "stories260K";
  if (!std::filesystem::exists(data / "tok512.bin")) GTEST_SKIP() << "no " << data / "tok512.bin";
  const Llama2cTokenizer tokenizer(data / "tok512.bin");
  EXPECT_EQ(tokenizer.size(), 512);
  std::ifstream file(data / "golden.json");
  const auto golden = nlohmann::json::parse(file);
  ASSERT_FALSE(golden.at("encode").empty());
  for (const auto& one : golden.at("encode")) {
    const auto text = one.at("text").get<std::string>();
    const auto ids = one.at("ids").get<std::vector<Id>>();
    EXPECT_EQ(tokenizer.encode(text), ids) << text;
    EXPECT_EQ(expect_streams(tokenizer, ids), text);
  }
  for (const auto& one : golden.at("greedy"))
    EXPECT_EQ(expect_streams(tokenizer, one.at("ids").get<std::vector<Id>>()), one.at("text").get<std::string>());
  for (const std::string text :
       {"Zoë's naïve café — “quoted” 日本語 🙂", "  two  spaces \n\ttabs", "<0x41><s>"})
    EXPECT_EQ(expect_streams(tokenizer, tokenizer.encode(text)), text);
}

TEST_F(Llama2cTokenizerTest, BrokenFiles) {
  const auto pieces = llama2c_pieces({{" ", 0}, {"ab", 0}});
  const std::string good = llama2c_bytes(pieces, 7);
  open(good);
  const auto with_last = [&](const std::string& last) { return llama2c_bytes(llama2c_pieces({}), 7) + last; };
  auto wrong_byte = pieces;
  wrong_byte[3 + 0x41].text = "<0x42>";
  const std::pair<std::string, std::string> cases[] = {
      {"", "the file has 0 bytes, too few for the longest piece's length"},
      {"\7\0", "too few"},
      {good.substr(0, 4), "the vocabulary has 0 pieces, too few to begin with the 256 bytes"},
      {llama2c_bytes({pieces.begin(), pieces.begin() + 258}, 7), "the vocabulary has 258 pieces, too few"},
      {good.substr(0, good.size() - 1), "piece 260 would be 2 bytes long, but only 1 follow"},
      {good.substr(0, good.size() - 2), "piece 260 would be 2 bytes long, but only 0 follow"},
      {good.substr(0, good.size() - 3), "within the length of piece 260"},
      {good.substr(0, good.size() - 7), "within the score of piece 260"},
      {good + '\0', "within the score of piece 261"},
      {with_last(bytes_of(1.0f) + bytes_of(-1)),
       "piece 259 would be 4294967295 bytes long, not from 1 to the 7 of the longest"},
      {with_last(bytes_of(1.0f) + bytes_of(8) + "12345678"), "piece 259 would be 8 bytes long, not from 1 to the 7"},
      {with_last(bytes_of(1.0f) + bytes_of(0)), "piece 259 would be 0 bytes long"},
      {with_last(bytes_of(NAN) + bytes_of(1) + "a"), "the score of piece 259 is not a number"},
      {bytes_of(-1) + with_last(bytes_of(1.0f) + bytes_of(0x7fffffff) + "a").substr(4),
       "piece 259 would be 2147483647 bytes long, but only 1 follow"},
      {llama2c_bytes(wrong_byte, 7), "piece 68 is \"<0x42>\", not byte 65"},
  };
  for (const auto& [bytes, reason] : cases) expect_contains(refusal(bytes), reason);
  expect_contains(error_of([&] { Llama2cTokenizer(folder / "none"); }), "none: there is no such file");
  expect_contains(error_of([&] { Llama2cTokenizer(folder / ""); }), "there is no such file");  // a folder
  for (std::size_t size = 0; size < good.size(); size += 3)
    if (size != good.size() - 10 && size != good.size() - 19)
      refusal(good.substr(0, size));  // whole files of fewer pieces
}

TEST_F(Llama2cTokenizerTest, AnyChangeOfAByte) {
  std::string bytes = llama2c_bytes(llama2c_pieces({{" ", -1}, {"a", -1}, {"b", -1}, {"ab", -2}, {" ab", -3}}), 7);
  RandomSequence random(3);
  int valid = 0;
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    const char original = bytes[at];
    for (const int change : {1, 0x80, 0xff, 1 + static_cast<int>(random.below(255))}) {
      bytes[at] = static_cast<char>(original ^ change);
      try {
        const auto tokenizer = open(bytes);
        const std::vector<Id> ids = tokenizer.encode("abab é");
        expect_streams(tokenizer, ids);
        ++valid;
      } catch (const Error&) {
      }
    }
    bytes[at] = original;
  }
  EXPECT_GT(valid, 1000);  // other scores
}

}  // namespace
}  // namespace eigenformer::test
