// The texts, batches and files of examples/translate.
#include "../../examples/translate/text.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "../../examples/translate/corpus.hpp"

namespace translate {
namespace {

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> parts;
  for (const Character& character : characters(text))
    parts.push_back(std::string(character.valid ? "" : "!").append(character.bytes));
  return parts;
}

TEST(Text, SplitsIntoCharacters) {
  using Parts = std::vector<std::string>;
  EXPECT_EQ(split(""), Parts{});
  EXPECT_EQ(split("aé백😀"), (Parts{"a", "é", "백", "😀"}));
  EXPECT_EQ(split("\xEB\xB0"), (Parts{"!\xEB", "!\xB0"}));               // cut off
  EXPECT_EQ(split("\xC0\xAF"), (Parts{"!\xC0", "!\xAF"}));               // longer than needed
  EXPECT_EQ(split("\xED\xA0\x80"), (Parts{"!\xED", "!\xA0", "!\x80"}));  // a surrogate
  EXPECT_EQ(split("\xF4\x90\x80\x80").size(), 4u);                       // beyond the last character
  EXPECT_EQ(split("a\xFF"
                  "b"),
            (Parts{"a", "!\xFF", "b"}));
}

TEST(Text, VocabularyIsARoundTrip) {
  const Vocabulary vocabulary("백 one 이 one\xFF");
  EXPECT_EQ(vocabulary.size(), 3 + 6);
  EXPECT_EQ(vocabulary.decode(vocabulary.encode("one 백이")), "one 백이");
  Index unknown = 0;
  EXPECT_EQ(vocabulary.decode(vocabulary.encode("o?n\xFF"
                                                "e",
                                                &unknown)),
            "one");
  EXPECT_EQ(unknown, 2);
  EXPECT_EQ(Vocabulary(vocabulary.text()).text(), vocabulary.text());
}

TEST(Text, BatchesKeepToTheirSize) {
  const Corpus corpus = number_corpus();
  const Vocabulary vocabulary(corpus.text);
  Batches batches(vocabulary, corpus.draw, 500, 1);
  Index tokens = 0, padded = 0;
  for (int i = 0; i < 200; ++i) {
    const Batch batch = batches.next();
    ASSERT_LE(batch.source.ids.size() + batch.target.ids.size(), 500);
    ASSERT_EQ(batch.target.ids.shape(), batch.expected.ids.shape());
    tokens += batch.tokens;
    padded += batch.source.ids.size() + batch.target.ids.size();
    for (Index row = 0; row < batch.target.ids.extent(0); ++row) {
      const Index length = batch.target.lengths[static_cast<std::size_t>(row)];
      ASSERT_EQ(batch.target.ids(row, 0), Vocabulary::bos);
      ASSERT_EQ(batch.expected.ids(row, length - 1), Vocabulary::eos);
      for (Index j = 1; j < length; ++j) ASSERT_EQ(batch.target.ids(row, j), batch.expected.ids(row, j - 1));
      for (Index j = length; j < batch.target.ids.extent(1); ++j)
        ASSERT_EQ(batch.expected.ids(row, j), Vocabulary::padding);
    }
  }
  EXPECT_GT(static_cast<double>(tokens), 0.9 * static_cast<double>(padded));
}

TEST(Text, ALongPairIsABatch) {
  const Vocabulary vocabulary("ab");
  Batches batches(
      vocabulary,
      [](auto&) {
        return Pair{"aaaa", "bbbb"};
      },
      3, 1);
  EXPECT_EQ(batches.next().tokens, 10);
}

class File : public testing::Test {
 protected:
  Corpus read(const std::string& content) {
    std::ofstream(path_, std::ios::binary) << content;
    return file_corpus(path_);
  }
  std::string refusal(const std::string& content) {
    try {
      read(content);
    } catch (const eigenformer::Error& error) {
      std::string what = error.what();
      const std::size_t at = what.find(path_);
      return at == std::string::npos ? what : what.replace(at, path_.size(), "FILE");
    }
    return "none";
  }
  ~File() override { std::filesystem::remove(path_); }

  const std::string path_ = testing::TempDir() + "translate_pairs.tsv";
};

TEST_F(File, DividesBySource) {
  std::string content;
  for (int i = 0; i < 200; ++i)
    content.append("s").append(std::to_string(i % 100)).append("\tt").append(std::to_string(i)).append("\r\n");
  const Corpus corpus = read(content);
  EXPECT_EQ(corpus.tests.size(), 20u);  // both targets of 10 of the 100 sources
  EXPECT_EQ(corpus.longest_target, 4);
  std::set<std::string> tested, trained;
  for (const Pair& pair : corpus.tests) tested.insert(pair.source);
  eigenformer::RandomSequence random(1);
  for (int i = 0; i < 5000; ++i) {
    const Pair pair = corpus.draw(random);
    EXPECT_FALSE(tested.contains(pair.source)) << pair.source;
    trained.insert(pair.target);
  }
  EXPECT_EQ(trained.size(), 180u);
}

TEST_F(File, WithFewLinesHasNoTests) {
  const Corpus corpus = read("a\tb\nc\td");
  EXPECT_TRUE(corpus.tests.empty());
  EXPECT_EQ(corpus.text, "abcd");
}

TEST_F(File, IsRefusedWithTheLine) {
  EXPECT_EQ(refusal("a\tb\nc d\n"), "[translate] FILE:2: no tab between source and target");
  EXPECT_EQ(refusal("a\tb\n\nc\td\n"), "[translate] FILE:2: no tab between source and target");
  EXPECT_EQ(refusal("a\tb\tc\n"), "[translate] FILE:1: more than one tab");
  EXPECT_EQ(refusal("\tb\n"), "[translate] FILE:1: the source is empty");
  EXPECT_EQ(refusal("a\t\n"), "[translate] FILE:1: the target is empty");
  EXPECT_EQ(refusal("a\tb\xFF\n"), "[translate] FILE:1: byte 4 is not UTF-8");
  EXPECT_EQ(refusal(""), "[translate] FILE has no lines");
  EXPECT_THROW(file_corpus(path_ + ".missing"), eigenformer::Error);
}

}  // namespace
}  // namespace translate
