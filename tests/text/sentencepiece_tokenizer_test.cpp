// SentencePiece models, trained here: the library's ids and its text, also one id at a time.
#if __has_include(<sentencepiece_trainer.h>)
#include "eigenformer/text/sentencepiece_tokenizer.hpp"

#include <gtest/gtest.h>
#include <sentencepiece_trainer.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "eigenformer/text/gguf_tokenizer.hpp"
#include "support/gguf.hpp"
#include "text/support.hpp"

namespace eigenformer::test {
namespace {

class Sentences : public sentencepiece::SentenceIterator {
 public:
  /// Runs of as many spaces as this stand between some words.
  explicit Sentences(Index spaces) : lines_(make(spaces)) {}
  bool done() const override { return at_ == lines_.size(); }
  void Next() override { ++at_; }
  const std::string& value() const override { return lines_[at_]; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  std::size_t at_ = 0;
  static std::vector<std::string> make(Index spaces) {
    const char* const words[] = {"the",   "cat",  "sat",  "on",   "a",     "mat",   "and",    "then",
                                 "other", "cats", "came", "café", "naïve", "there", "sitting"};
    RandomSequence random(8);
    std::vector<std::string> lines;
    for (int i = 0; i < 300; ++i) {
      std::string line;
      for (int j = 0; j < 8; ++j) {
        const Index between = line.empty() ? 0 : spaces == 1 ? 1 : 1 + random.below(spaces);
        line.append(static_cast<std::size_t>(between), ' ').append(words[random.below(15)]);
      }
      lines.push_back(line + ".");
    }
    return lines;
  }

  std::vector<std::string> lines_;
};

/// The bytes of a model, trained once for all tests of a kind.
const std::string& trained_model(const std::string& kind) {
  static std::map<std::string, std::string> models;
  std::string& bytes = models[kind];
  if (!bytes.empty()) return bytes;
  const std::string common = "--minloglevel=2 --num_threads=1 --hard_vocab_limit=false --character_coverage=1.0 ";
  const std::map<std::string, std::string> flags{
      {"unigram", "--model_type=unigram --vocab_size=60"},
      {"bpe", "--model_type=bpe --vocab_size=80"},
      // as LLaMA's: bytes for what is unknown, white space kept
      {"llama",
       "--model_type=bpe --vocab_size=360 --byte_fallback=true --normalization_rule_name=identity "
       "--remove_extra_whitespaces=false"},
      {"bare",
       "--model_type=bpe --vocab_size=360 --byte_fallback=true --add_dummy_prefix=false "
       "--remove_extra_whitespaces=false --bos_id=-1 "
       "--eos_id=-1"},
      {"t5",
       "--model_type=unigram --vocab_size=60 --pad_id=0 --eos_id=1 --unk_id=2 --bos_id=-1 "
       "--user_defined_symbols=<x>,▁<y> "
       "--unk_surface=??"},
      // as Mistral's: the first piece that begins with a space has two
      {"spaces",
       "--model_type=bpe --vocab_size=360 --byte_fallback=true --normalization_rule_name=identity "
       "--remove_extra_whitespaces=false "
       "--allow_whitespace_only_pieces=true"},
      {"bare_spaces",
       "--model_type=unigram --vocab_size=80 --normalization_rule_name=identity --remove_extra_whitespaces=false "
       "--allow_whitespace_only_pieces=true --add_dummy_prefix=false"},
      {"suffix", "--model_type=unigram --vocab_size=60 --treat_whitespace_as_suffix=true"}};
  Sentences sentences(kind.ends_with("spaces") ? 6 : 1);
  const auto status = sentencepiece::SentencePieceTrainer::Train(common + flags.at(kind), &sentences, &bytes);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return bytes;
}
const char* const model_kinds[] = {"unigram", "bpe", "llama", "bare", "t5", "spaces", "bare_spaces", "suffix"};

class SentencePieceTokenizerTest : public testing::Test {
 protected:
  TemporaryFolder folder;
  std::filesystem::path path = folder / "tokenizer.model";
  sentencepiece::SentencePieceProcessor library;

  SentencePieceTokenizer open(const std::string& kind, SentencePieceConfig config = {}) {
    replace_file(path, trained_model(kind));
    EXPECT_TRUE(library.LoadFromSerializedProto(trained_model(kind)).ok());
    return SentencePieceTokenizer(path, config);
  }
};

TEST_F(SentencePieceTokenizerTest, IsTheLibrary) {
  const std::vector<std::string> texts{"",           " ",        "the cat sat.",    "cat",         " cats  came ",
                                       "naïve café", "the\tmat", "xyz 🙂 日本", "<x> the <y>", "ﬁ Ⅷ",
                                       "\n"};
  RandomSequence random(9);
  const std::vector<std::string> parts{"the", " ", "cat", "s", "é", "🙂", ".", "▁", "q", "    "};
  for (const char* const kind : model_kinds) {
    SCOPED_TRACE(kind);
    const SentencePieceTokenizer tokenizer = open(kind);
    EXPECT_EQ(tokenizer.size(), library.GetPieceSize());
    EXPECT_EQ(tokenizer.bos().value_or(-1), library.bos_id());
    EXPECT_EQ(tokenizer.eos().value_or(-1), library.eos_id());
    auto all = texts;
    for (int i = 0; i < 300; ++i) all.push_back(random_text(random, parts, 12));
    for (const std::string& text : all) {
      const std::vector<Id> ids = tokenizer.encode(text);
      EXPECT_EQ(ids, library.EncodeAsIds(text)) << text;
      EXPECT_EQ(expect_streams(tokenizer, ids), library.DecodeIds(ids)) << text;
    }
  }
}

TEST_F(SentencePieceTokenizerTest, AnyIds) {  // never in a row in a text: spaces first, marks within, unknown ones
  RandomSequence random(10);
  for (const char* const kind : model_kinds) {
    SCOPED_TRACE(kind);
    const SentencePieceTokenizer tokenizer = open(kind);
    std::vector<Id> some, marks;
    for (Id id = 0; id < tokenizer.size(); ++id) {
      if (library.IsByte(id) && library.IdToPiece(id) >= "<0x80>") continue;  // broken characters differ
      (library.IsControl(id) || library.IsUnknown(id) || library.IdToPiece(id) == "▁" ? marks : some).push_back(id);
    }
    for (int i = 0; i < 2000; ++i) {
      std::vector<Id> ids = random_ids(random, static_cast<Id>(some.size()), 6);
      for (Id& id : ids) id = some[static_cast<std::size_t>(id)];
      for (Index j = random.below(4); j > 0; --j)
        ids.insert(ids.begin() +
                       static_cast<std::ptrdiff_t>(random.below(random.below(static_cast<Index>(ids.size()) + 1) + 1)),
                   marks[static_cast<std::size_t>(random.below(static_cast<Index>(marks.size())))]);
      ASSERT_EQ(expect_streams(tokenizer, ids), library.DecodeIds(ids)) << testing::PrintToString(ids);
      expect_streams(tokenizer, random_ids(random, tokenizer.size(), 20));
    }
  }
}

TEST_F(SentencePieceTokenizerTest, FirstSpaceOfAModelWithRunsOfSpaces) {
  const SentencePieceTokenizer tokenizer = open("spaces");
  Id first = 0;
  while (!library.IdToPiece(first).starts_with("▁")) ++first;
  EXPECT_EQ(library.IdToPiece(first), "▁▁");
  for (const std::string text : {"the cat", " the cat", "  the", "a", " ", "     ", ""})
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
}

TEST_F(SentencePieceTokenizerTest, AddedPieces) {
  const SentencePieceTokenizer plain = open("llama");
  const Id size = plain.size();
  const std::vector<AddedPiece> added{{.text = "<x>"},
                                      {.text = "<m>", .special = true, .strips_left = true, .strips_right = true},
                                      {.text = "<n>", .normalized = true},
                                      {.text = "<n>x", .id = size + 7}};
  const auto all = open("llama", {.bos_piece = "<m>", .eos_piece = "</s>", .added = added});
  const auto once = open("llama", {.added = added, .find_marks = true, .prefix_once = true});
  const auto joined = [](std::vector<std::vector<Id>> parts) {
    std::vector<Id> ids;
    for (const auto& part : parts) ids.insert(ids.end(), part.begin(), part.end());
    return ids;
  };
  EXPECT_EQ(all.size(), size + 8);
  EXPECT_EQ(all.bos(), size + 1);
  EXPECT_EQ(all.find("<x>"), size);
  EXPECT_EQ(all.find("<n>"), size + 2);
  const std::vector<Id> the = plain.encode("the"), cat = plain.encode("cat"), mark = plain.encode("<s>");
  EXPECT_EQ(all.encode("the<x>cat"), joined({the, {size}, cat}));
  EXPECT_EQ(all.encode("the \n<m>\t cat<n>x<n>"), joined({the, {size + 1}, cat, {size + 7, size + 2}}));
  EXPECT_EQ(all.encode("<s>"), mark);  // letters
  EXPECT_EQ(all.encode("</s>"), (std::vector<Id>{2}));
  EXPECT_EQ(once.encode("the<s> cat"), joined({the, {1}, cat}));
  const std::vector<Id> bare = once.encode("the<x>cat");
  ASSERT_GT(bare.size(), the.size() + 1);
  EXPECT_EQ(bare[the.size()], size);
  EXPECT_NE(plain.piece(bare[the.size() + 1], the[0]).front(), ' ');
  EXPECT_EQ(expect_streams(once, bare), "the<x>cat");
  EXPECT_EQ(expect_streams(once, once.encode("the<x> cat<m><n> the")), "the<x> cat<n> the");
  EXPECT_EQ(
      once.encode(std::string("\xa0<m>\xff")),
      joined({plain.encode("\xa0"), {size + 1, *plain.find("<0xEF>"), *plain.find("<0xBF>"), *plain.find("<0xBD>")}}));
  // Several spaces are one in this model, also behind an added piece; the one that is left is not lost.
  const auto unigram = open("unigram", {.added = added, .prefix_once = true});
  EXPECT_EQ(unigram.encode("the<x>   cat"),
            joined({unigram.encode("the"), {unigram.find("<x>").value()}, unigram.encode("cat")}));
  // The model knows better which id a piece of its own has; but an unused one may get another name.
  const auto renamed =
      open("llama", {.added = {{.text = "<s>", .id = 7}, {.text = "<tool>", .id = 300}, {.text = "<new>", .id = 300}}});
  EXPECT_EQ(renamed.encode("<s><tool><new>"), (std::vector<Id>{1, 300, size}));
  EXPECT_EQ(expect_streams(renamed, {1, 300, size}), "<s><tool><new>");
  expect_contains(error_of([&] { open("llama", {.added = {{.text = ""}}}); }), "an added piece is empty");
  expect_contains(error_of([&] { open("llama", {.added = {{.text = "x y", .id = -1}}}); }),
                  "the piece \"x y\" has the id -1");
  expect_contains(error_of([&] { open("llama", {.eos_piece = "<end>"}); }),
                  "the eos piece \"<end>\" is not in the vocabulary");
}

TEST_F(SentencePieceTokenizerTest, TextsComeBack) {
  const SentencePieceTokenizer llama = open("llama");
  RandomSequence random(11);
  const std::vector<std::string> parts{"the", " ", "cat", "s", "é", "🙂", ".", "\n", "日", "\xe2\x80\xa8", "  "};
  for (int i = 0; i < 300; ++i) {
    const std::string text = random_text(random, parts, 12);
    EXPECT_EQ(expect_streams(llama, llama.encode(text)), text);
  }
  const auto ids = llama.encode("🙂");  // a space, and bytes
  ASSERT_EQ(ids.size(), 5u);
  TextStream stream(llama);
  std::vector<std::string> shown;
  for (const Id id : ids) shown.push_back(stream.next(id));
  EXPECT_EQ(shown, (std::vector<std::string>{"", "", "", "", "🙂"}));
  EXPECT_EQ(llama.decode(std::vector<Id>{ids[1], ids[2], *llama.find("▁")}), "\xef\xbf\xbd ");  // one broken character
}

TEST_F(SentencePieceTokenizerTest, Marks) {
  const SentencePieceTokenizer plain = open("llama"), marked = open("llama", {.add_bos = true, .add_eos = true});
  std::vector<Id> ids = plain.encode("the cat");
  ids.insert(ids.begin(), *plain.bos());
  ids.push_back(*plain.eos());
  EXPECT_EQ(marked.encode("the cat"), ids);
  EXPECT_EQ(expect_streams(marked, ids), "the cat");
  EXPECT_EQ(plain.find("<s>"), plain.bos());
  EXPECT_EQ(plain.find("no such piece"), std::nullopt);
  EXPECT_EQ(plain.piece(*plain.find("▁the")), "the");
  EXPECT_EQ(plain.piece(*plain.find("▁the"), *plain.bos()), "the");
  EXPECT_EQ(plain.piece(*plain.find("▁the"), *plain.find("▁the")), " the");
  expect_contains(error_of([&] { open("bare", {.add_bos = true}); }), path.string() + ": the model has no bos piece");
  expect_contains(error_of([&] { open("bare", {.add_eos = true}); }), "the model has no eos piece");
}

TEST_F(SentencePieceTokenizerTest, BrokenFilesAndIds) {
  const SentencePieceTokenizer tokenizer = open("unigram");
  std::vector<Id> ids = tokenizer.encode("the cat");
  for (const Id none : {tokenizer.size(), -1, 0x7fffffff}) ids.insert(ids.begin(), none);
  EXPECT_EQ(expect_streams(tokenizer, ids), "the cat");
  for (const std::string bytes : {"", "no model", "\x0a\xff\xff\xff\xff\x7f", "{}"}) {
    replace_file(path, bytes);
    expect_contains(error_of([&] { SentencePieceTokenizer{path}; }),
                    "[tokenizer] " + path.string() + ": this is no SentencePiece model: ");
  }
  expect_contains(error_of([&] { SentencePieceTokenizer(folder / "none"); }), "none: there is no such file");
  expect_contains(error_of([&] { SentencePieceTokenizer(folder / ""); }), "there is no such file");
}

/// What follows each tag of a message whose field is this: its bytes.
std::vector<std::string> fields_of(const std::string& message, unsigned field) {
  std::vector<std::string> found;
  std::size_t at = 0;
  const auto varint = [&] {
    std::uint64_t value = 0;
    for (unsigned shift = 0; at < message.size(); shift += 7) {
      const auto byte = static_cast<unsigned char>(message[at++]);
      value |= std::uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) break;
    }
    return value;
  };
  while (at < message.size()) {
    const std::uint64_t tag = varint();
    std::size_t size = (tag & 7) == 5 ? 4 : 0;
    if ((tag & 7) == 2) size = static_cast<std::size_t>(varint());
    if ((tag & 7) == 0) varint();
    if (tag >> 3 == field) found.push_back(message.substr(at, size));
    at += size;
  }
  return found;
}

// What llama.cpp's converter keeps of a unigram model is enough for its ids.
TEST_F(SentencePieceTokenizerTest, OfUnigramsInGguf) {
  for (const char* const kind : {"unigram", "t5"}) {
    SCOPED_TRACE(kind);
    const SentencePieceTokenizer plain = open(kind, {.add_eos = true});
    GgufBytes file;
    std::vector<std::string> pieces;
    std::vector<float> scores;
    std::vector<std::int32_t> kinds;
    for (int id = 0; id < library.GetPieceSize(); ++id) {
      pieces.push_back(library.IdToPiece(id));
      scores.push_back(library.GetScore(id));
      const bool user = pieces.back() == "<x>" || pieces.back() == "\u2581<y>";
      kinds.push_back(library.IsUnknown(id) ? 2 : library.IsControl(id) ? 3 : user ? 4 : 1);
    }
    const std::string charsmap = fields_of(fields_of(trained_model(kind), 3).at(0), 2).at(0);
    ASSERT_GT(charsmap.size(), 1000u);
    file.key("tokenizer.ggml.model", "t5").list("tokenizer.ggml.tokens", pieces);
    file.list("tokenizer.ggml.scores", 6, scores).list("tokenizer.ggml.token_type", 5, kinds);
    file.list("tokenizer.ggml.precompiled_charsmap", 0, charsmap.size(), charsmap);
    file.key("tokenizer.ggml.add_space_prefix", true).key("tokenizer.ggml.remove_extra_whitespaces", true);
    file.key("tokenizer.ggml.eos_token_id", static_cast<std::uint32_t>(library.eos_id()));
    const auto tokenizer =
        load_gguf_tokenizer(Gguf(std::make_unique<std::istringstream>(file.bytes()), "file"), {.find_marks = false});
    EXPECT_EQ(tokenizer->size(), plain.size());
    EXPECT_EQ(tokenizer->eos(), plain.eos());
    EXPECT_EQ(tokenizer->bos(), plain.bos());
    RandomSequence random(10);
    const std::vector<std::string> parts{"the", " ", "cat",  "s",   "é", "🙂", ".",
                                         "▁",   "q", "    ", "<x>", "ﬁ", "Ⅷ",    "\t"};
    for (int i = 0; i < 300; ++i) {
      const std::string text = random_text(random, parts, 12);
      EXPECT_EQ(tokenizer->encode(text), plain.encode(text)) << text;
    }
    EXPECT_EQ(tokenizer->decode(plain.encode("the cat sat.")), "the cat sat.");
  }
}

}  // namespace
}  // namespace eigenformer::test
#endif
