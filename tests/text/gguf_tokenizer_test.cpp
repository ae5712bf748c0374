// Tokenizers in GGUF files: ids worked out by hand, those of llama.cpp, and what is refused.
#include "eigenformer/text/gguf_tokenizer.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "eigenformer/text/llama2c_tokenizer.hpp"
#include "eigenformer/text/load_tokenizer.hpp"
#include "support/gguf.hpp"
#include "support/shared_data.hpp"
#include "text/byte_pair_support.hpp"
#include "text/support.hpp"

namespace eigenformer::test {
namespace {

std::unique_ptr<Tokenizer> tokenizer_of(const GgufBytes& file, const GgufTokenizerConfig& config = {}) {
  return load_gguf_tokenizer(Gguf(std::make_unique<std::istringstream>(file.bytes()), "file"), config);
}

/// Three marks, the bytes, then these.
GgufBytes scored_file(const std::vector<ScoredPiece>& more = {}) {
  std::vector<ScoredPiece> pieces = llama2c_pieces({{"\u2581", -10},
                                                    {"a", -11},
                                                    {"b", -12},
                                                    {"ab", -1},
                                                    {"\u2581a", -2},
                                                    {"\u2581ab", -5},
                                                    {"bb", -3},
                                                    {"\u00e9b", -4}});
  pieces[0].text = "<unk>", pieces[1].text = "<s>", pieces[2].text = "</s>";
  pieces.insert(pieces.end(), more.begin(), more.end());
  std::vector<std::string> texts;
  std::vector<float> scores;
  std::vector<std::int32_t> kinds;
  for (const auto& [text, score] : pieces) {
    kinds.push_back(texts.empty() ? 2 : texts.size() < 3 ? 3 : texts.size() < 259 ? 6 : text == "<tool>" ? 4 : 1);
    texts.push_back(text);
    scores.push_back(score);
  }
  GgufBytes file;
  file.key("tokenizer.ggml.model", "llama").list("tokenizer.ggml.tokens", texts);
  return file.list("tokenizer.ggml.scores", 6, scores).list("tokenizer.ggml.token_type", 5, kinds);
}

Id byte_id(char c) { return 3 + static_cast<unsigned char>(c); }

}  // namespace

TEST(GgufTokenizer, OfScoredPieces) {
  const GgufBytes file = scored_file({{"<tool>", 0}});
  const auto tokenizer = tokenizer_of(file);
  EXPECT_EQ(tokenizer->size(), 268);
  EXPECT_EQ(tokenizer->bos(), 1);
  EXPECT_EQ(tokenizer->eos(), 2);
  EXPECT_EQ(tokenizer->find("ab"), 262);
  EXPECT_EQ(tokenizer->find("ba"), std::nullopt);
  const std::pair<std::string, std::vector<Id>> cases[] = {
      {"", {1}},
      {"a", {1, 263}},
      {"b", {1, 259, 261}},
      {"ab", {1, 264}},        // "ab" has the best score, then all three
      {"abb", {1, 264, 261}},  // so "bb" never comes about
      {"bb", {1, 259, 265}},
      {" a", {1, 259, 263}},  // every space stays
      {"\u00e9b", {1, 259, 266}},
      {"\u00e9a", {1, 259, byte_id('\xC3'), byte_id('\xA9'), 260}},  // not a piece by itself
      {"\xC3", {1, 259, byte_id('\xC3')}},
      {"a<tool>b", {1, 263, 267, 259, 261}},  // a space after it, too
      {"</s>a<unk>", {1, 2, 263, 0}}};
  for (const auto& [text, ids] : cases) EXPECT_EQ(tokenizer->encode(text), ids) << text;
  EXPECT_EQ(tokenizer->decode(std::vector<Id>{1, 263, 267, 259, 261, 2, 0, 5000}), "a<tool> b");
  EXPECT_EQ(expect_streams(*tokenizer, {259, 266, byte_id('\xC3'), byte_id('\xA9')}), "\u00e9b\u00e9");
  RandomSequence random(1);
  for (int i = 0; i < 300; ++i) {
    expect_streams(*tokenizer, random_ids(random, 268, 8));
    const std::string text = random_text(random, {"a", "b", " ", "\u00e9", "\u65e5", "\n", "ab"}, 12);
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  }

  const auto blind = tokenizer_of(file, {.find_marks = false});
  EXPECT_EQ(blind->encode("<s>"), (std::vector<Id>{1, 259, byte_id('<'), byte_id('s'), byte_id('>')}));
  EXPECT_EQ(blind->encode("<tool>"), (std::vector<Id>{1, 267})) << "the user's pieces are always found";

  GgufBytes bare = file;
  bare.key("tokenizer.ggml.add_bos_token", false).key("tokenizer.ggml.add_eos_token", true);
  bare.key("tokenizer.ggml.add_space_prefix", false).key("tokenizer.ggml.eos_token_id", 0u);
  EXPECT_EQ(tokenizer_of(bare)->encode("ab"), (std::vector<Id>{262, 0}));
  EXPECT_EQ(tokenizer_of(bare)->decode(std::vector<Id>{263}), " a");
}

// Where no byte is unknown, llama2.c's merges are the same.
TEST(GgufTokenizer, MergesAsLlama2c) {
  const TemporaryFolder folder;
  std::vector<ScoredPiece> pieces;
  for (const char* const piece : {" ", "a", "b", "c"}) pieces.push_back({piece, -100});
  RandomSequence random(2);
  for (int i = 0; i < 40; ++i) {
    const std::string text = random_text(random, {"a", "b", "c", " "}, 4);
    if (text.size() < 2) continue;
    bool known = false;
    for (const ScoredPiece& piece : pieces) known = known || piece.text == text;
    if (!known) pieces.push_back({text, static_cast<float>(-random.below(20))});
  }
  write_file(folder / "x.bin", llama2c_bytes(llama2c_pieces(pieces), 10));
  const Llama2cTokenizer reference(folder / "x.bin");
  std::vector<std::string> texts{"<unk>", "<s>", "</s>"};
  std::vector<float> scores(3);
  const auto all = llama2c_pieces(pieces);
  for (std::size_t i = 3; i < all.size(); ++i) {
    std::string text;
    for (const char c : all[i].text) text += c == ' ' ? "\u2581" : std::string(1, c);
    texts.push_back(text);
    scores.push_back(all[i].score);
  }
  GgufBytes file;
  file.key("tokenizer.ggml.model", "llama").list("tokenizer.ggml.tokens", texts);
  const auto tokenizer = tokenizer_of(file.list("tokenizer.ggml.scores", 6, scores));
  for (int i = 0; i < 500; ++i) {
    const std::string text = random_text(random, {"a", "b", "c", " "}, 20);
    EXPECT_EQ(tokenizer->encode(text), reference.encode(text)) << text;
  }
}

#if __has_include(<unicode/regex.h>)
namespace {

/// Byte-level pieces for runs of digits, one that no merge makes, then <end> and <user>.
GgufBytes byte_pair_file(const std::string& pre) {
  const Merges merges{{"1", "2"}, {"12", "3"}, {"123", "4"}, {"\u0120", "a"}, {"a", "B"}, {"!", "a"}};
  const nlohmann::json vocabulary = byte_vocabulary(merges, {"xyz", "<end>", "<user>"});
  std::vector<std::string> tokens(vocabulary.size()), joined;
  for (const auto& [piece, id] : vocabulary.items()) tokens[id.get<std::size_t>()] = piece;
  std::vector<std::int32_t> kinds(tokens.size(), 1);
  kinds[kinds.size() - 2] = 3, kinds[kinds.size() - 1] = 4;
  for (const auto& [left, right] : merges) joined.push_back(left + " " + right);
  GgufBytes file;
  file.key("tokenizer.ggml.model", "gpt2").list("tokenizer.ggml.tokens", tokens).list("tokenizer.ggml.merges", joined);
  file.list("tokenizer.ggml.token_type", 5, kinds);
  file.key("tokenizer.ggml.bos_token_id", 263u).key("tokenizer.ggml.eos_token_id", 263u);
  if (!pre.empty()) file.key("tokenizer.ggml.pre", pre);
  return file;
}

}  // namespace

// "12" is 256, "123" 257, "1234" 258, " a" 259, "aB" 260, "!a" 261, "xyz" 262, <end> 263, <user> 264.
TEST(GgufTokenizer, OfBytePairsCutsAsItsNameSays) {
  const std::vector<Id> together{258}, three{257, '4'}, single{'1', '2', '3', '4'};
  const std::map<std::string, std::vector<Id>> digits{{"gpt-2", together},   {"olmo", together}, {"smollm", single},
                                                      {"starcoder", single}, {"qwen2", single},  {"qwen35", single},
                                                      {"dbrx", three},       {"", three},        {"default", three},
                                                      {"llama-bpe", three},  {"falcon", three},  {"tekken", single}};
  for (const auto& each : digits) {
    const std::string& pre = each.first;
    const bool of_llama = pre == "llama-bpe" || pre == "tekken";
    const auto tokenizer = tokenizer_of(byte_pair_file(pre));
    const auto expect = [&](const std::string& text, std::vector<Id> want) {
      if (of_llama) want.insert(want.begin(), 263);
      EXPECT_EQ(tokenizer->encode(text), want) << pre << ": " << text;
      EXPECT_EQ(tokenizer->decode(want), text) << pre;
    };
    expect("1234", each.second);
    expect(" a<e><user> a", {259, '<', 'e', '>', 264, 259});
    if (of_llama) expect("xyz", {262});  // without a merge
    else expect("xyz", {'x', 'y', 'z'});
    if (pre == "tekken") expect("aB", {'a', 'B'});  // a capital begins a word
    else expect("aB", {260});
    if (of_llama || pre.starts_with("qwen") || pre == "dbrx") expect("!a", {261});  // a mark goes with a word
    else expect("!a", {'!', 'a'});
  }
  EXPECT_EQ(tokenizer_of(byte_pair_file("gpt-2"))->encode("<end>a"), (std::vector<Id>{263, 'a'}));
  const auto blind = tokenizer_of(byte_pair_file("gpt-2"), {.find_marks = false});
  EXPECT_EQ(blind->encode("<end>"), (std::vector<Id>{'<', 'e', 'n', 'd', '>'}));
  EXPECT_EQ(blind->decode(std::vector<Id>{263, 'a'}), "a");
  GgufBytes marked = byte_pair_file("gpt-2");
  marked.key("tokenizer.ggml.add_bos_token", true).key("tokenizer.ggml.add_eos_token", true);
  EXPECT_EQ(tokenizer_of(marked)->encode("a"), (std::vector<Id>{263, 'a', 263}));
  EXPECT_EQ(tokenizer_of(marked)->eos(), 263);
}
#endif

TEST(GgufTokenizer, SaysWhatIsWrong) {
  const auto refuses = [](const GgufBytes& file, const std::string& reason) {
    expect_contains(error_of([&] { tokenizer_of(file); }), "[tokenizer] file: " + reason);
  };
  const auto of = [](const std::string& model) { return GgufBytes().key("tokenizer.ggml.model", model); };
  refuses(of("no_vocab"), R"(tokenizer.ggml.model is "no_vocab": there is no tokenizer in this file)");
  refuses(GgufBytes(), "tokenizer.ggml.model is null: there is no tokenizer in this file");
  refuses(of("bert"), R"(tokenizer.ggml.model is "bert": only "llama", "gpt2" and "t5" are understood)");
  refuses(of("llama"), "tokenizer.ggml.tokens is null: it must be an array");
  refuses(of("llama").list("tokenizer.ggml.tokens", 5, std::vector<std::int32_t>{1}),
          "tokenizer.ggml.tokens.0 is 1: it must be a string");
  refuses(of("llama").list("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b", "a"}),
          R"(the piece "a" is there twice)");
  refuses(of("llama").list("tokenizer.ggml.tokens", std::vector<std::string>{"a"}), "there is no bos piece");
  const auto with = [&](const char* key, std::uint32_t type, auto value) {
    return of("llama")
        .list("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b"})
        .list(key, type, std::vector{value});
  };
  refuses(with("tokenizer.ggml.scores", 6, 1.0f), "tokenizer.ggml.scores is an array of 1: there are 2 tokens");
  refuses(with("tokenizer.ggml.token_type", 5, std::int32_t{3}),
          "tokenizer.ggml.token_type is an array of 1: there are 2");
  GgufBytes file = scored_file();
  refuses(file.key("tokenizer.ggml.add_bos_token", 1u), "tokenizer.ggml.add_bos_token is 1: it must be true or false");
#if __has_include(<unicode/regex.h>)
  refuses(byte_pair_file("kimi-k2"), R"(tokenizer.ggml.pre is "kimi-k2": how it cuts a text into words is not known)");
  refuses(of("gpt2").list("tokenizer.ggml.tokens", std::vector<std::string>{"a"}), "tokenizer.ggml.merges is null");
  refuses(of("gpt2")
              .list("tokenizer.ggml.tokens", std::vector<std::string>{"a"})
              .list("tokenizer.ggml.merges", std::vector<std::string>{"a"}),
          "tokenizer.ggml.merges.0 is \"a\": a merge is two pieces with a space between them");
#endif
}

// llama.cpp's ids of the stories' tokenizer.
TEST(GgufTokenizer, OfStoriesGivesTheReference) {
  const std::filesystem::path folder = shared_data() / "gguf";
  if (!std::filesystem::exists(folder / "golden/tokenize.json")) GTEST_SKIP() << "the files are not here";
  const std::filesystem::path path = folder / "stories260K/stories260K-q4_0.gguf";
  const auto with = load_tokenizer(path), without = load_gguf_tokenizer(path, {.find_marks = false});
  const auto cases = nlohmann::json::parse(read_file(folder / "golden/tokenize.json"));
  EXPECT_EQ(cases.size(), 34u);
  for (const auto& [key, each] : cases.items()) {
    const std::string text = each.at("text");
    const Tokenizer& tokenizer = each.at("parse_special").get<bool>() ? *with : *without;
    EXPECT_EQ(tokenizer.encode(text), each.at("ids").get<std::vector<Id>>()) << text;
    std::string spaced;  // what stands for a space comes back as one
    detail::append_spaced(text, spaced);
    EXPECT_EQ(without->decode(without->encode(text)), spaced);
  }
  const auto golden = nlohmann::json::parse(read_file(folder / "golden/stories260K-f32.json"));
  for (const auto& prompt : golden.at("prompts")) {
    const auto ids = prompt.at("ids").get<std::vector<Id>>();
    EXPECT_EQ(with->encode(prompt.at("text").get<std::string>()), ids);
    std::vector<Id> all = ids;
    for (const Id id : prompt.at("greedy_llama_cpp").get<std::vector<Id>>()) all.push_back(id);
    EXPECT_EQ(" " + with->decode(all), prompt.at("full_text_llama_cpp")) << "which keeps the first space";
  }
}

}  // namespace eigenformer::test
