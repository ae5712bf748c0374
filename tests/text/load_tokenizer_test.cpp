// The right tokenizer for a file or a folder.
#include "eigenformer/text/load_tokenizer.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
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
    EXPECT_EQ(tokenizer->eos(), std::nullopt);
  }
  replace_file(folder / "tokenizer_config.json", R"({"bos_token":null,"eos_token":{"content":"<|end|>"},"more":1})");
  EXPECT_EQ(load_tokenizer(folder / "")->bos(), std::nullopt);
  EXPECT_EQ(load_tokenizer(folder / "")->eos(), 257);

  auto json = tokenizer_json({{"a", "b"}, {"ab", "c"}});
  json["added_tokens"] = nlohmann::json::array({added_token(258, "<|end|>", true)});
  replace_file(folder / "tokenizer.json", json.dump());
  replace_file(folder / "tokenizer_config.json", R"({"eos_token":"<|end|>"})");
  for (const char* const name : {"", "tokenizer.json"}) {
    const auto tokenizer = load_tokenizer(folder / name);
    EXPECT_EQ(tokenizer->encode("abc<|end|>"), (std::vector<Id>{257, 258}));
    EXPECT_EQ(tokenizer->eos(), 258);
  }
  replace_file(folder / "tokenizer_config.json", R"({"eos_token":"</s>"})");
  expect_contains(error_of([&] { load_tokenizer(folder / ""); }),
                  "tokenizer.json: the eos piece \"</s>\" is not in the vocabulary");
  replace_file(folder / "tokenizer_config.json", R"({"eos_token":7})");
  expect_contains(error_of([&] { load_tokenizer(folder / ""); }),
                  "tokenizer_config.json: eos_token.content is null: it must be a string");
  replace_file(folder / "tokenizer_config.json", "[");
  expect_contains(error_of([&] { load_tokenizer(folder / ""); }),
                  "tokenizer_config.json: the file is not valid JSON at byte 2");
}
#endif

#if defined(EIGENFORMER_HAS_BYTE_PAIR_TOKENIZER)
/// "ab" is 256 and "<|endoftext|>" 257. Ids below are those of transformers 5.12.1 for the same files.
class VocabularyAndMergesTest : public LoadTokenizerTest {
 protected:
  using Ids = std::vector<Id>;
  const std::vector<std::string> others{"config.json", "tokenizer_config.json", "special_tokens_map.json",
                                        "added_tokens.json"};

  std::unique_ptr<Tokenizer> load(const std::map<std::string, std::string>& files,
                                  const std::vector<std::string>& more = {"<|endoftext|>"},
                                  const Merges& merges = {{"a", "b"}}) {
    for (const std::string& name : others) std::filesystem::remove(folder / name.c_str());
    replace_file(folder / "vocab.json", byte_vocabulary(merges, more).dump());
    replace_file(folder / "merges.txt", merges_text(merges));
    for (const auto& [name, text] : files) replace_file(folder / name.c_str(), text);
    return load_tokenizer(folder / "");
  }
  static Ids bytes(const std::string& text) {
    Ids ids;
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }
};

TEST_F(VocabularyAndMergesTest, WithoutOtherFilesEverythingIsLetters) {
  const auto tokenizer = load({});
  EXPECT_EQ(tokenizer->encode("ab<|endoftext|>").size(), 14u);
  EXPECT_EQ(tokenizer->eos(), std::nullopt);
}

TEST_F(VocabularyAndMergesTest, AddedPiecesOfEachFile) {
  const std::string gpt2 = R"({"model_type":"gpt2"})";
  const auto token = [](const char* text, bool special) {
    return std::string(R"({"content":")") + text +
           R"(","lstrip":false,"normalized":false,"rstrip":false,"single_word":false,"special":)" +
           (special ? "true}" : "false}");
  };
  const std::string decoder = R"({"added_tokens_decoder":{"257":)" + token("<|endoftext|>", true) + R"(,"258":)" +
                              token("<|im_start|>", true) + R"(,"259":)" + token("<t>", false) + "}}";
  struct Case {
    std::map<std::string, std::string> files;
    std::string decoded;  // of 257, 258, 259
  };
  const Case cases[] = {
      {{{"tokenizer_config.json", decoder}}, "<t>"},
      {{{"special_tokens_map.json",
         R"({"bos_token":"<|endoftext|>","additional_special_tokens":["<|im_start|>","<t>"]})"}},
       ""},
      {{{"added_tokens.json", R"({"<t>":259,"<|im_start|>":258})"}}, "<|im_start|><t>"},
      {{{"tokenizer_config.json",
         R"({"pad_token":{"__type":"AddedToken","content":"<|im_start|>"},"extra_special_tokens":{"x_token":"<t>"}})"}},
       ""},
      {{{"tokenizer_config.json", decoder}, {"special_tokens_map.json", R"({"pad_token":"[PAD]"})"}},
       "<t>"},  // all are listed
  };
  for (const auto& [files, decoded] : cases) {
    auto all = files;
    all["config.json"] = gpt2;
    SCOPED_TRACE(files.begin()->second);
    const auto tokenizer = load(all);
    EXPECT_EQ(tokenizer->size(), 260);
    EXPECT_EQ(tokenizer->eos(), 257);
    EXPECT_EQ(tokenizer->encode("ab<|endoftext|> x"), (Ids{256, 257, ' ', 'x'}));
    EXPECT_EQ(tokenizer->encode("<|im_start|>u"), (Ids{258, 'u'}));
    EXPECT_EQ(tokenizer->encode("<t> <t>"), (Ids{259, ' ', 259}));
    EXPECT_EQ(tokenizer->decode(Ids{257, 258, 259}), decoded);
    EXPECT_EQ(tokenizer->decode(Ids{'a', 9999, 'b'}), "ab");
  }
  const auto known = load({{"config.json", gpt2}});
  EXPECT_EQ(known->size(), 258);
  EXPECT_EQ(known->encode("ab<|endoftext|> x"), (Ids{256, 257, ' ', 'x'}));
  EXPECT_EQ(known->encode("<t> <t>"), bytes("<t> <t>"));
  EXPECT_EQ(load({{"config.json", gpt2}, {"tokenizer_config.json", R"({"eos_token":null})"}})->eos(), std::nullopt);

  const auto refusal = [&](const std::string& name, const std::string& text) {
    return error_of([&] { load({{name, text}}); });
  };
  expect_contains(refusal("tokenizer_config.json", R"({"added_tokens_decoder":{"x":{"content":"a"}}})"),
                  "its key must be an id");
  // Ids that are another's, or disagree with the vocabulary: transformers counts on, and believes the vocabulary.
  const auto taken = load({{"tokenizer_config.json",
                            R"({"added_tokens_decoder":{"5":{"content":"<t>"},"7":{"content":"<|endoftext|>"}}})"}});
  EXPECT_EQ(taken->encode("<|endoftext|><t>"), (Ids{257, 258}));
  expect_contains(refusal("added_tokens.json", R"({"<t>":-1})"),
                  "added_tokens.json: \"<t>\" is -1: it must be a whole number");
  expect_contains(refusal("tokenizer_config.json", R"({"added_tokens_decoder":{"2147483647":{"content":"<t>"}}})"),
                  "has the id 2147483647");
  expect_contains(refusal("tokenizer_config.json",
                          R"({"added_tokens_decoder":{"2147483646":{"content":"<t>"}},"pad_token":"<p>"})"),
                  "\"<p>\" has the id 2147483647");
  expect_contains(refusal("tokenizer_config.json", R"({"extra_ids":10001})"), "extra_ids is 10001: there are too many");
  expect_contains(refusal("added_tokens.json", R"({"":300})"), "it must not be empty");
  expect_contains(refusal("special_tokens_map.json", R"({"pad_token":{"content":"x","single_word":true}})"),
                  "words around it");
  expect_contains(refusal("tokenizer_config.json", R"({"bos_token":"<s>"})"),
                  "the bos piece \"<s>\" is not in the vocabulary");
}

TEST_F(VocabularyAndMergesTest, MarksAroundATextAsTheFilesSay) {
  const std::string gpt2 = R"({"model_type":"gpt2"})";
  const auto begin =
      load({{"config.json", gpt2},
            {"tokenizer_config.json", R"({"add_bos_token":true,"bos_token":"<|endoftext|>","pad_token":"[PAD]"})"}});
  EXPECT_EQ(begin->encode("ab<|endoftext|>"), (Ids{257, 256, 257}));
  EXPECT_EQ(begin->size(), 259);
  EXPECT_EQ(begin->find("[PAD]"), 258);
  const auto opt = load({{"config.json", R"({"model_type":"opt"})"},
                         {"tokenizer_config.json", R"({"add_bos_token":true,"add_eos_token":true})"}});
  EXPECT_EQ(opt->encode("ab"), (Ids{257, 256, 257}));
  const auto roberta = load({{"config.json", R"({"model_type":"bart"})"}}, {"<s>", "</s>", "<mask>"});
  EXPECT_EQ(roberta->encode("ab<mask>"), (Ids{257, 256, 259, 258}));
  EXPECT_EQ(load({{"tokenizer_config.json", R"({"add_prefix_space":true,"tokenizer_class":"GPT2TokenizerFast"})"}})
                ->encode("ab"),
            (Ids{' ', 256}));
}

TEST_F(VocabularyAndMergesTest, WordsOfTheClass) {
  const Merges merges{{"'", "S"}, {"1", "2"}, {"Ã", "©"}};
  const std::string text = "IT'S 12 e\u0301";
  const Ids gpt2{'I', 'T', '\'', 'S', ' ', 257, ' ', 'e', 0xcc, 0x81}, qwen{'I', 'T', 256, ' ', '1', '2', ' ', 258};
  const std::pair<std::string, Ids> cases[] = {
      {R"({"model_type":"gpt2"})", gpt2},
      {R"({"model_type":"some_other"})", gpt2},
      {R"({"model_type":"qwen2"})", qwen},
      {R"({"model_type":"qwen3_moe"})", qwen},
      {R"({"model_type":"qwen3_5"})", qwen},
      {R"({"model_type":"x","tokenizer_class":"Qwen2Tokenizer"})", qwen},
      {R"({"model_type":"gpt_neox"})", {'I', 'T', '\'', 'S', ' ', 257, ' ', 258}},
      {R"({"model_type":"cohere"})", {'I', 'T', '\'', 'S', ' ', '1', '2', ' ', 258}}};
  for (const auto& [config, ids] : cases)
    EXPECT_EQ(load({{"config.json", config}}, {}, merges)->encode(text), ids) << config;
  for (const char* const name : {"Qwen2Tokenizer", "Qwen2TokenizerFast"})
    EXPECT_EQ(load({{"tokenizer_config.json", std::string(R"({"tokenizer_class":")") + name + "\"}"}}, {}, merges)
                  ->encode(text),
              qwen);
  expect_contains(error_of([&] {
                    load({{"tokenizer_config.json", R"({"tokenizer_class":"CLIPTokenizer"})"}});
                  }),
                  "vocab.json: how a CLIPTokenizer cuts a text into words is not known");
}

TEST_F(VocabularyAndMergesTest, TokenizerJsonTakesAddedPiecesAndGoesBeforeAddBosToken) {
  auto json = tokenizer_json({{"a", "b"}});
  json["added_tokens"] = nlohmann::json::array({added_token(257, "<s>", false)});
  replace_file(folder / "tokenizer.json", json.dump());
  replace_file(folder / "tokenizer_config.json",
               R"({"add_bos_token":true,"bos_token":"<s>","pad_token":"[PAD]","additional_special_tokens":["<t>"]})");
  const auto tokenizer = load_tokenizer(folder / "");
  EXPECT_EQ(tokenizer->encode("<s>ab[PAD]<t>"), (Ids{257, 256, 258, 259}));
  EXPECT_EQ(tokenizer->decode(Ids{257, 256, 258, 259}), "ab");
}
#endif

#if defined(EIGENFORMER_HAS_SENTENCEPIECE_TOKENIZER) && defined(EIGENFORMER_HAS_TOKENIZER_SETTINGS)
enum class PieceType { normal = 1, unknown, control, byte = 6 };
struct ModelPiece {
  std::string text;
  float score = 0;
  PieceType type = PieceType::normal;
};

/// A model that nobody trained, by sentencepiece_model.proto. A message is its fields' numbers, kinds and values.
std::string model_bytes(const std::vector<ModelPiece>& pieces, bool byte_pairs, bool strips) {
  const auto number = [](unsigned field, std::uint64_t value) {
    std::string bytes;
    for (std::uint64_t rest : {std::uint64_t{field} << 3, value}) {
      for (; rest >= 0x80; rest >>= 7) bytes += static_cast<char>(static_cast<unsigned char>(rest | 0x80));
      bytes += static_cast<char>(rest);
    }
    return bytes;
  };
  const auto text = [&](unsigned field, const std::string& value) {
    std::string bytes = number(field, value.size());
    bytes[0] = static_cast<char>(bytes[0] | 2);
    return bytes + value;
  };
  std::string model;
  for (const auto& [piece, score, type] : pieces)
    model += text(1, text(1, piece) + "\x15" + bytes_of(score) + number(3, static_cast<std::uint64_t>(type)));
  return model + text(2, number(3, byte_pairs ? 2 : 1) + number(35, byte_pairs)) +
         text(3, text(1, "identity") + number(4, strips));
}

class LoadSentencePieceTest : public LoadTokenizerTest {
 protected:
  using Ids = std::vector<Id>;

  void SetUp() override {  // LLaMA 2's, with 259 ▁a, 260 ▁b, 261 ▁, 262 a, 263 b
    std::vector<ModelPiece> pieces{
        {"<unk>", 0, PieceType::unknown}, {"<s>", 0, PieceType::control}, {"</s>", 0, PieceType::control}};
    for (int byte = 0; byte < 256; ++byte) {
      const char* const digits = "0123456789ABCDEF";
      pieces.push_back({std::string("<0x") + digits[byte / 16] + digits[byte % 16] + ">", 0, PieceType::byte});
    }
    for (const char* const piece : {"▁a", "▁b", "▁", "a", "b"})
      pieces.push_back({piece, 258.0f - static_cast<float>(pieces.size())});
    llama = model_bytes(pieces, true, false);
  }
  void config(const std::string& text) { replace_file(folder / "tokenizer_config.json", text); }

  std::string llama;
};

TEST_F(LoadSentencePieceTest, MarksOfTokenizerConfig) {
  replace_file(folder / "tokenizer.model", llama);
  EXPECT_EQ(load_tokenizer(folder / "")->encode("a b"), (Ids{259, 260}));
  EXPECT_EQ(load_tokenizer(folder / "")->encode("<s>").size(), 4u);  // letters: the model alone does not look for marks
  for (const char* const name : {"", "tokenizer.model"}) {
    config(R"({"add_bos_token":true})");
    const auto tokenizer = load_tokenizer(folder / name);
    EXPECT_EQ(tokenizer->encode("a b"), (Ids{1, 259, 260}));
    EXPECT_EQ(expect_streams(*tokenizer, {1, 259, 260}), "a b");
    EXPECT_EQ(tokenizer->bos(), 1);
    EXPECT_EQ(tokenizer->eos(), 2);
    config(R"({"add_bos_token":true,"add_eos_token":true,"bos_token":"</s>","eos_token":{"content":"<s>"}})");
    EXPECT_EQ(load_tokenizer(folder / name)->encode("a b"), (Ids{2, 259, 260, 1}));
    config(R"({"add_bos_token":false})");
    EXPECT_EQ(load_tokenizer(folder / name)->encode("a b"), (Ids{259, 260}));
  }
  config(R"({"bos_token":"<begin>"})");
  expect_contains(error_of([&] { load_tokenizer(folder / ""); }),
                  "tokenizer.model: the bos piece \"<begin>\" is not in the vocabulary");
}

TEST_F(LoadSentencePieceTest, TheModelOfAFolderWhoseTokenizerJsonIsNotUnderstood) {
  replace_file(folder / "tokenizer.model", llama);
  config(R"({"add_bos_token":true})");
  const std::string refused = R"({"model":{"type":"BPE","byte_fallback":true,"vocab":{},"merges":[]}})";
  for (const std::string& json : {refused, std::string("{"), std::string()}) {
    replace_file(folder / "tokenizer.json", json);
    EXPECT_EQ(load_tokenizer(folder / "")->encode("a b"), (Ids{1, 259, 260}));
  }
  // What it says of added pieces and marks counts all the same, as in transformers.
  replace_file(
      folder / "tokenizer.json",
      R"({"added_tokens":[{"id":264,"content":"<t>","special":false,"normalized":false}],"model":{"type":"BPE","byte_fallback":true},
                   "post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>"}},{"Sequence":{"id":"A"}}],
                   "special_tokens":{"<s>":{"ids":[1]}}}})");
  config("{}");
  EXPECT_EQ(load_tokenizer(folder / "")->encode("a<t>"), (Ids{1, 259, 264}));
  replace_file(folder / "tokenizer.model", "no model");
  replace_file(folder / "tokenizer.json", "{");
  expect_contains(error_of([&] { load_tokenizer(folder / ""); }), "tokenizer.json: ");
}

TEST_F(LoadSentencePieceTest, MarksWithinATextAsInTransformers) {  // 5.12.1's LlamaTokenizer
  replace_file(folder / "tokenizer.model", llama);
  const std::pair<const char*, Ids> cases[] = {{"a<s>b", {1, 259, 1, 263}}, {"a<s> b", {1, 259, 1, 260}},
                                               {"<s>a", {1, 1, 262}},       {"a </s>", {1, 259, 261, 2}},
                                               {"<unk>", {1, 0}},           {"", {1}}};
  config(R"({"add_bos_token":true,"tokenizer_class":"LlamaTokenizer"})");
  for (const auto& [text, ids] : cases) EXPECT_EQ(load_tokenizer(folder / "")->encode(text), ids) << text;
  config(R"({"add_bos_token":true,"tokenizer_class":"LlamaTokenizer","legacy":true})");
  EXPECT_EQ(load_tokenizer(folder / "")->encode("a<s>b"), (Ids{1, 259, 1, 260}));
  EXPECT_EQ(load_tokenizer(folder / "")->encode("<s>a"), (Ids{1, 1, 259}));
  replace_file(folder / "added_tokens.json", R"({"<|im_end|>":264})");
  config(R"({"eos_token":"<|im_end|>"})");
  const auto chat = load_tokenizer(folder / "");
  EXPECT_EQ(chat->eos(), 264);
  EXPECT_EQ(chat->encode("a<|im_end|>"), (Ids{259, 264}));
  EXPECT_EQ(expect_streams(*chat, {259, 264, 300, 260}), "a b");
}

TEST_F(LoadSentencePieceTest, SentinelsOfT5) {
  std::vector<ModelPiece> pieces{{"<pad>", 0, PieceType::control},
                                 {"</s>", 0, PieceType::control},
                                 {"<unk>", 0, PieceType::unknown},
                                 {"▁a", -1},
                                 {"▁b", -2},
                                 {"▁", -3}};
  while (pieces.size() < 17) pieces.push_back({"x" + std::to_string(pieces.size()), -9});
  replace_file(folder / "spiece.model", model_bytes(pieces, false, true));
  for (const char* const name : {"", "spiece.model"}) {
    const auto tokenizer = load_tokenizer(folder / name);
    EXPECT_EQ(tokenizer->size(), 117);
    EXPECT_EQ(tokenizer->encode("a <extra_id_0> b"), (Ids{3, 116, 4}));
    EXPECT_EQ(tokenizer->encode("<extra_id_99>"), (Ids{17}));
    EXPECT_EQ(tokenizer->find("<extra_id_1>"), 115);
    EXPECT_EQ(expect_streams(*tokenizer, {3, 115, 116, 4, 117, 200}), "a b");
  }
  replace_file(folder / "config.json", R"({"model_type":"t5","vocab_size":117})");
  EXPECT_EQ(load_tokenizer(folder / "")->encode("a<extra_id_0>b"), (Ids{3, 116, 4}));
  config(R"({"tokenizer_class":"T5Tokenizer","extra_ids":2,"eos_token":"</s>"})");  // transformers puts the end itself
  EXPECT_EQ(load_tokenizer(folder / "")->encode("a <extra_id_0> b<extra_id_2>"),
            (Ids{3, 18, 4, 2, 1}));  // no such sentinel
  EXPECT_EQ(load_tokenizer(folder / "")->encode("a <extra_id_0> b"), (Ids{3, 18, 4, 1}));
  EXPECT_EQ(load_tokenizer(folder / "")->size(), 19);
  config(
      R"({"tokenizer_class":"T5Tokenizer","added_tokens_decoder":{"50":{"content":"<extra_id_0>","special":true}}})");
  EXPECT_EQ(load_tokenizer(folder / "")->encode("a <extra_id_0> b"), (Ids{3, 50, 4, 1}));
  config(R"({"tokenizer_class":"PegasusTokenizer"})");
  expect_contains(error_of([&] { load_tokenizer(folder / ""); }),
                  "spiece.model: the pieces of a PegasusTokenizer have other ids");
}

TEST_F(LoadSentencePieceTest, MarianNumbersItsPiecesItself) {
  replace_file(folder / "source.spm", model_bytes({{"<unk>", 0, PieceType::unknown},
                                                   {"<s>", 0, PieceType::control},
                                                   {"</s>", 0, PieceType::control},
                                                   {"▁Hola", -1},
                                                   {"▁mi", -1},
                                                   {"▁amor", -1},
                                                   {"▁no", -1}},
                                                  false, true));
  expect_contains(error_of([&] { load_tokenizer(folder / ""); }), "vocab.json: there is no such file");
  replace_file(folder / "vocab.json",
               R"({"</s>":0,"<unk>":1,"▁mi":2,"▁amor":3,"<pad>":4,">>fr<<":5,"▁my":6,"▁Hola":7})");
  const auto tokenizer = load_tokenizer(folder / "");
  EXPECT_EQ(tokenizer->encode("Hola mi amor"), (Ids{7, 2, 3, 0}));
  EXPECT_EQ(tokenizer->encode(">>fr<< Hola no"), (Ids{5, 7, 1, 0}));
  EXPECT_EQ(tokenizer->encode(""), (Ids{0}));
  EXPECT_EQ(tokenizer->eos(), 0);
  EXPECT_EQ(tokenizer->size(), 8);
  EXPECT_EQ(expect_streams(*tokenizer, {4, 6, 3, 99, 0}), "my amor");
  replace_file(folder / "vocab.json", R"({"</s>":0,"▁mi":0})");
  expect_contains(error_of([&] { load_tokenizer(folder / ""); }), "is 0: another piece has this id too");
  replace_file(folder / "vocab.json", R"({"</s>":0})");
  expect_contains(error_of([&] { load_tokenizer(folder / ""); }), "there is no </s> or no <unk> in the vocabulary");
  replace_file(folder / "source.spm", "no model");
  expect_contains(error_of([&] { load_tokenizer(folder / ""); }), "source.spm: this is no SentencePiece model");
}
#endif

#if defined(EIGENFORMER_HAS_BYTE_PAIR_TOKENIZER)
TEST_F(VocabularyAndMergesTest, AnyChangeOfAByteBesideTheVocabulary) {  // is an Error, or a tokenizer that works
  std::map<std::string, std::string> files{
      {"config.json", R"({"model_type":"qwen3","tokenizer_class":"GPT2Tokenizer"})"},
      {"tokenizer_config.json",
       R"({"tokenizer_class":"Qwen2Tokenizer","add_bos_token":true,"bos_token":"<s>","extra_ids":9,"pad_token":null})"},
      {"special_tokens_map.json",
       R"({"unk_token":{"content":"<u>","lstrip":true},"eos_token":"","extra_special_tokens":["<e>"]})"},
      {"added_tokens.json", R"({"<t>":258,"<s>":257})"}};
  RandomSequence random(12);
  const std::string likely = "\"\\{}[]:,0-9.eanul tfr\xc3\xff ";
  int valid = 0;
  for (auto& [name, text] : files)
    for (std::size_t at = 0; at < text.size(); ++at) {
      const char original =
          std::exchange(text[at], likely[static_cast<std::size_t>(random.below(static_cast<Index>(likely.size())))]);
      try {
        const auto tokenizer = load(files, {});
        expect_streams(*tokenizer, tokenizer->encode("ab <t><u>"));
        ++valid;
      } catch (const Error&) {
      }
      text[at] = original;
    }
  EXPECT_GT(valid, 100);
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
