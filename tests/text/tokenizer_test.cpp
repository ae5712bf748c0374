// Streams of ids as text, by a tokenizer whose ids are bytes.
#include "eigenformer/text/tokenizer.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "eigenformer/text/byte_alphabet.hpp"
#include "eigenformer/text/utf8.hpp"
#include "text/support.hpp"

namespace eigenformer::test {
namespace {

/// Id n is byte n; 256 gives "é!" unless it is the first, then only "!".
class BytesTokenizer : public Tokenizer {
 public:
  std::vector<Id> encode(std::string_view text) const override {
    std::vector<Id> ids;
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }
  Id size() const override { return 257; }
  std::optional<Id> bos() const override { return {}; }
  std::optional<Id> eos() const override { return {}; }
  std::optional<Id> find(std::string_view) const override { return {}; }
  void append(Id id, int& state, std::string& bytes) const override {
    if (id == 256) bytes += state == 0 ? "!" : "é!";
    else bytes.push_back(static_cast<char>(static_cast<unsigned char>(id)));
    state = 1;
  }
};
const BytesTokenizer bytes_tokenizer;

const std::string fffd = "\xef\xbf\xbd";

TEST(TextStreamTest, HoldsBackWhatIsNotWhole) {
  TextStream stream(bytes_tokenizer);
  EXPECT_EQ(stream.next('a'), "a");
  EXPECT_EQ(stream.next(0xe2), "");  // €
  EXPECT_EQ(stream.next(0x82), "");
  EXPECT_EQ(stream.next(0xac), "€");
  EXPECT_EQ(stream.next(0xf0), "");  // 🙂, never finished
  EXPECT_EQ(stream.next(0x9f), "");
  EXPECT_EQ(stream.next(0x99), "");
  EXPECT_EQ(stream.next('b'), fffd + "b");
  EXPECT_EQ(stream.next(0xff), fffd);
  EXPECT_EQ(stream.next(0xc3), "");
  EXPECT_EQ(stream.next(256), fffd + "é!");
  EXPECT_EQ(stream.next(0xc3), "");
  EXPECT_EQ(stream.flush(), fffd);
  EXPECT_EQ(stream.flush(), "");
  EXPECT_EQ(stream.next(256), "!");  // as the first
}

TEST(TextStreamTest, OnePieceAfterAnother) {
  EXPECT_EQ(bytes_tokenizer.piece(256), "!");
  EXPECT_EQ(bytes_tokenizer.piece(256, 0xc3), "é!");
  EXPECT_EQ(bytes_tokenizer.piece(0xc3), "\xc3");
}

// The examples of the Unicode standard, chapter 3.9.
TEST(TextStreamTest, ReplacesAsUnicodeRecommends) {
  const auto times = [](int n) {
    std::string text;
    while (n-- > 0) text += fffd;
    return text;
  };
  const std::pair<std::string, std::string> cases[] = {
      {"", ""},
      {"\x61\xf1\x80\x80\xe1\x80\xc2\x62\x80\x63\x80\xbf\x64", "a" + times(3) + "b" + times(1) + "c" + times(2) + "d"},
      {"\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41", times(8) + "A"},
      {"\xed\xa0\x80\xed\xbf\xbf\xed\xaf\x41", times(8) + "A"},
      {"\xf4\x91\x92\x93\xff\x41\x80\xbf\x42", times(5) + "A" + times(2) + "B"},
      {"\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41", times(4) + "A"},
      {"\xf4\x8f\xbf\xbf\xf0\x90\x80\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf\xe0\xa0\x80\xc2\x80\x7f",
       "\xf4\x8f\xbf\xbf\xf0\x90\x80\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf\xe0\xa0\x80\xc2\x80\x7f"},  // the ends of
                                                                                                         // the ranges
      {std::string("\0a\0", 3), std::string("\0a\0", 3)},
  };
  for (const auto& [bytes, text] : cases)
    EXPECT_EQ(expect_streams(bytes_tokenizer, bytes_tokenizer.encode(bytes)), text);
}

TEST(TextStreamTest, AnyBytes) {
  const Id likely[] = {'a',  0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc2, 0xdf,
                       0xe0, 0xe1, 0xed, 0xef, 0xf0, 0xf1, 0xf4, 0xf5, 0xff, 256};
  RandomSequence random(1);
  for (int i = 0; i < 20'000; ++i) {
    std::vector<Id> ids = random_ids(random, 20, 8);
    std::string bytes;
    for (Id& id : ids) {
      id = likely[id];
      if (id < 256) bytes.push_back(static_cast<char>(static_cast<unsigned char>(id)));
    }
    expect_streams(bytes_tokenizer, ids);
    EXPECT_EQ(detail::find_broken_utf8(bytes) == std::string::npos, is_utf8(bytes));
  }
}

TEST(TextStreamTest, EveryCharacterAsUtf8) {
  int wrong = 0;
  for (char32_t c = 0; c <= 0x10ffff; ++c) {
    std::string text;
    detail::append_utf8(c, text);
    const bool surrogate = c >= 0xd800 && c < 0xe000;
    wrong += is_utf8(text) == surrogate || (detail::find_broken_utf8(text) == std::string::npos) == surrogate;
    std::string_view rest = text;
    if (!surrogate) wrong += detail::take_character(rest) != c || !rest.empty();
  }
  EXPECT_EQ(wrong, 0);
}

TEST(ByteAlphabetTest, IsThatOfGpt2) {
  const std::pair<int, const char*> known[] = {
      {' ', "Ġ"},  {'\n', "Ċ"}, {'\t', "ĉ"}, {'\r', "č"}, {0, "Ā"},    {'!', "!"},  {'~', "~"},  {0x7f, "ġ"},
      {0x80, "Ģ"}, {0x99, "Ļ"}, {0xa0, "ł"}, {0xa1, "¡"}, {0xac, "¬"}, {0xad, "Ń"}, {0xae, "®"}, {0xff, "ÿ"}};
  const auto one = [](int byte) { return std::string(1, static_cast<char>(static_cast<unsigned char>(byte))); };
  for (const auto& [byte, character] : known) EXPECT_EQ(to_byte_characters(one(byte)), character);
  EXPECT_EQ(to_byte_characters("’ é"), "âĢĻĠÃ©");
  for (int byte = 0; byte < 256; ++byte) EXPECT_EQ(from_byte_characters(to_byte_characters(one(byte))), one(byte));
  for (const char* other : {" ", "\n", "\xc2\xa0", "\xc2\xad", "\u0144", "€", "a b"})
    EXPECT_EQ(from_byte_characters(other), std::nullopt);
}

}  // namespace
}  // namespace eigenformer::test
