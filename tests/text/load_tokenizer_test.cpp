// The right tokenizer for a file or a folder.
#include "eigenformer/text/load_tokenizer.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#if defined(EIGENFORMER_HAS_BYTE_PAIR_TOKENIZER)
#include "text/byte_pair_support.hpp"
#endif
#include "text/support.hpp"

namespace eigenformer::test {
namespace {

class LoadTokenizerTest : public testing::Test {
 protected:
  TemporaryFolder folder;
  const std::string llama2c = llama2c_bytes(llama2c_pieces({{" ", 0}, {"a", 0}}), 7);
};

TEST_F(LoadTokenizerTest, Llama2c) {
  replace_file(folder / "tokenizer.bin", llama2c);
  replace_file(folder / "tok.bin", llama2c);
  for (const char* const name : {"", "tokenizer.bin", "tok.bin"}) {
    const auto tokenizer = load_tokenizer(folder / name);
    EXPECT_EQ(tokenizer->encode("a"), (std::vector<Id>{1, 259, 260}));
  }
}

#if defined(EIGENFORMER_HAS_BYTE_PAIR_TOKENIZER)
TEST_F(LoadTokenizerTest, BytePairs) {
  replace_file(folder / "tokenizer.bin", llama2c);
  replace_file(folder / "vocab.json", byte_vocabulary({{"a", "b"}}, {"<|end|>"}).dump());
  replace_file(folder / "merges.txt", "a b\n");
  for (const char* const name : {"", "vocab.json"}) {
    const auto tokenizer = load_tokenizer(folder / name);
    EXPECT_EQ(tokenizer->encode("ab"), (std::vector<Id>{256}));
    EXPECT_EQ(tokenizer->end(), std::nullopt);
  }
  replace_file(folder / "tokenizer_config.json", R"({"bos_token":null,"eos_token":{"content":"<|end|>"},"more":1})");
  EXPECT_EQ(load_tokenizer(folder / "")->begin(), std::nullopt);
  EXPECT_EQ(load_tokenizer(folder / "")->end(), 257);

  auto json = tokenizer_json({{"a", "b"}, {"ab", "c"}});
  json["added_tokens"] = nlohmann::json::array({added_token(258, "<|end|>", true)});
  replace_file(folder / "tokenizer.json", json.dump());
  replace_file(folder / "tokenizer_config.json", R"({"eos_token":"<|end|>"})");
  for (const char* const name : {"", "tokenizer.json"}) {
    const auto tokenizer = load_tokenizer(folder / name);
    EXPECT_EQ(tokenizer->encode("abc<|end|>"), (std::vector<Id>{257, 258}));
    EXPECT_EQ(tokenizer->end(), 258);
  }
  replace_file(folder / "tokenizer_config.json", R"({"eos_token":"</s>"})");
  expect_contains(error_of([&] { load_tokenizer(folder / ""); }), "tokenizer.json: the end piece \"</s>\" is not in the vocabulary");
  replace_file(folder / "tokenizer_config.json", R"({"eos_token":7})");
  expect_contains(error_of([&] { load_tokenizer(folder / ""); }), "tokenizer_config.json: eos_token.content is null: it must be a string");
  replace_file(folder / "tokenizer_config.json", "[");
  expect_contains(error_of([&] { load_tokenizer(folder / ""); }), "tokenizer_config.json: the file is not valid JSON at byte 2");
}
#endif

TEST_F(LoadTokenizerTest, NothingToLoad) {
  expect_contains(error_of([&] { load_tokenizer(folder / ""); }),
                  ": the folder has no tokenizer.json, vocab.json, tokenizer.model or tokenizer.bin");
  expect_contains(error_of([&] { load_tokenizer(folder / "none"); }), "none: there is no such file");
  for (const char* const name : {"none.bin", "none.model", "none.json"}) {
    const std::string message = error_of([&] { load_tokenizer(folder / name); });
    expect_contains(message, "[tokenizer] " + (folder / name).string() + ": ");
  }
}

}  // namespace
}  // namespace eigenformer::test
