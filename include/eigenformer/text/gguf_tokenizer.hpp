// The tokenizer in a GGUF file: SentencePiece's byte-pair pieces (tokenizer.ggml.model "llama"), byte-level byte-pair
// encoding ("gpt2", which needs ICU), both with llama.cpp's ids, or SentencePiece's unigrams ("t5", through that
// library).
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "eigenformer/core/error.hpp"
#include "eigenformer/core/scalar.hpp"
#include "eigenformer/io/gguf.hpp"
#include "eigenformer/text/json_value.hpp"
#include "eigenformer/text/scored_tokenizer.hpp"
#include "eigenformer/text/tokenizer.hpp"
#if __has_include(<unicode/regex.h>)
#include "eigenformer/text/byte_pair_files.hpp"
#include "eigenformer/text/byte_pair_tokenizer.hpp"
#include "eigenformer/text/split.hpp"
#endif
#if __has_include(<sentencepiece_processor.h>)
#include "eigenformer/text/sentencepiece_tokenizer.hpp"
#endif

namespace eigenformer::inline EIGENFORMER_ABI {

struct GgufTokenizerConfig {
  bool find_marks = true;  ///< marks, such as <s>, are found in a text; else they are letters there
};

namespace detail {

class GgufTokenizerReader {
 public:
  GgufTokenizerReader(const Gguf& file, const GgufTokenizerConfig& config)
      : name_(file.name()), keys_(file.metadata(), name_, ""), config_(config) {}

  std::unique_ptr<Tokenizer> read() {
    const JsonValue kind = value("model");
    kind.validate(kind.is_text() && kind.text() != "no_vocab" && kind.text() != "none",
                  "there is no tokenizer in this file");
    kind.validate(kind.text() == "llama" || kind.text() == "gpt2" || kind.text() == "t5",
                  "only \"llama\", \"gpt2\" and \"t5\" are understood");
    read_pieces();
    if (kind.text() == "gpt2") return byte_pairs();
    if (kind.text() == "t5") return unigrams();
    const ScoredConfig config{.bos = mark("bos", 1),
                              .eos = mark("eos", 2),
                              .add_bos = value("add_bos_token").truth(true),
                              .add_eos = value("add_eos_token").truth(false),
                              .prefix_space = value("add_space_prefix").truth(true),
                              .find_marks = config_.find_marks};
    return std::make_unique<ScoredTokenizer>(std::move(pieces_), config, name_);
  }

 private:
  JsonValue value(const std::string& key) const { return keys_["tokenizer.ggml." + key]; }

  void read_pieces() {
    const JsonValue tokens = value("tokens"), scores = value("scores"), kinds = value("token_type");
    for (const JsonValue& token : tokens.list()) {
      pieces_.push_back({.text = token.text()});
      if (pieces_.back().text.empty()) pieces_.back().text = "[EMPTY_" + std::to_string(pieces_.size() - 1) + "]";
    }
    const auto list_of = [&](const JsonValue& list) {
      std::vector<JsonValue> all;
      if (!list.null()) all = list.list();
      list.validate(all.size() >= pieces_.size() || list.null(), "there are ", pieces_.size(), " tokens");
      return all;
    };
    const std::vector<JsonValue> score = list_of(scores), kind = list_of(kinds);
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      if (!score.empty()) pieces_[i].score = static_cast<float>(score[i].number());
      if (!kind.empty()) pieces_[i].kind = kind_of(kind[i]);
    }
  }

  static PieceKind kind_of(const JsonValue& value) {
    const double number = value.number();
    value.validate(number >= 0 && number <= 6, "it must be a kind of token, from 0 to 6");
    return number == 0 ? PieceKind::normal : static_cast<PieceKind>(static_cast<int>(number));
  }

  /// None if the vocabulary does not have it.
  std::optional<Id> mark(const std::string& name, std::optional<Id> otherwise) const {
    const JsonValue id = value(name + "_token_id");
    const double number = id.null() ? otherwise.value_or(-1) : id.number();
    if (!(number >= 0 && number < static_cast<double>(pieces_.size()))) return {};
    return static_cast<Id>(number);
  }

#if __has_include(<unicode/regex.h>)
  /// How texts are cut into words, by the names in tokenizer.ggml.pre.
  struct Words {
    std::vector<std::string_view> names, patterns;
    bool whole_words = false;  // a word that is a piece is not looked at more closely
    bool add_bos = false;      // unless the file says otherwise
  };
  static const std::vector<Words>& all_words() {
    static const std::vector<Words> all{
        {{"gpt-2", "phi-2", "jina-es", "jina-de", "jina-v1-en", "jina-v2-es", "jina-v2-de", "jina-v2-code",
          "roberta-bpe", "gigachat", "a.x-4.0", "mellum", "modern-bert", "exaone4", "mpt", "olmo", "jais", "trillion",
          "granite-docling"},
         {gpt2_pattern}},
        {{"starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b", "mellum2"},
         {R"(\p{N})", gpt2_pattern}},
        {{"falcon"}, {R"([\p{P}\$\+<=>\^~\|`]+)", gpt2_pattern, "[0-9][0-9][0-9]"}},
        {{"default", ""}, {R"([\p{P}\$\+<=>\^~\|]+)", gpt2_pattern, R"(\p{N}+)", "[0-9][0-9][0-9]"}},
        {{"qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "stablelm2", "megrez", "hunyuan", "solar-open", "grok-2"},
         {qwen2_pattern}},
        {{"qwen35"}, {qwen3_5_pattern}},
        {{"llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano"},
         {llama3_pattern},
         true,
         true},
        {{"dbrx", "smaug-bpe", "glm4", "chatglm-bpe"}, {llama3_pattern}},
        {{"tekken"}, {tekken_pattern}, true, true}};
    return all;
  }

  std::unique_ptr<Tokenizer> byte_pairs() {
    const JsonValue pre = value("pre");
    const std::string name = pre.null() ? "" : pre.text();
    const auto words = std::find_if(all_words().begin(), all_words().end(), [&](const Words& each) {
      return std::find(each.names.begin(), each.names.end(), name) != each.names.end();
    });
    pre.validate(words != all_words().end(), "how it cuts a text into words is not known");

    BytePairFiles files;
    files.whole_words = words->whole_words;
    files.finds_marks = config_.find_marks;
    for (const std::string_view pattern : words->patterns) add_split(pattern, files);
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      const auto& [text, score, kind] = pieces_[i];
      const bool special = kind == PieceKind::control || kind == PieceKind::unknown;
      if (special || kind == PieceKind::user_defined)
        files.added.push_back({.text = text, .id = static_cast<Id>(i), .special = special});
      else files.vocabulary.emplace_back(text, static_cast<Id>(i));
    }
    for (const JsonValue& merge : value("merges").list())
      merge.validate(split_merge(merge.text(), files.merges.emplace_back()),
                     "a merge is two pieces with a space between them");
    BytePairConfig config{.add_bos = value("add_bos_token").truth(words->add_bos),
                          .add_eos = value("add_eos_token").truth(false)};
    if (const std::optional<Id> bos = mark("bos", {})) config.bos_piece = pieces_[static_cast<std::size_t>(*bos)].text;
    if (const std::optional<Id> eos = mark("eos", {})) config.eos_piece = pieces_[static_cast<std::size_t>(*eos)].text;
    return std::make_unique<BytePairTokenizer>(std::move(files), name_, config);
  }
#else
  std::unique_ptr<Tokenizer> byte_pairs() {
    fail("tokenizer", name_, ": ICU (libicu-dev) was not there when this program was compiled");
  }
#endif

#if __has_include(<sentencepiece_processor.h>)
  // Protocol buffers: a number and a wire type, then a varint, four bytes, or a length and bytes.
  static std::string varint(std::uint64_t value) {
    std::string bytes;
    for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<char>(static_cast<unsigned char>(value | 0x80)));
    bytes.push_back(static_cast<char>(static_cast<unsigned char>(value)));
    return bytes;
  }
  static std::string number_field(unsigned field, std::uint64_t value) { return varint(field << 3) + varint(value); }
  static std::string bytes_field(unsigned field, const std::string& bytes) {
    return varint(field << 3 | 2) + varint(bytes.size()) + bytes;
  }
  static std::string float_field(unsigned field, float value) {
    std::string bytes = varint(field << 3 | 5);
    for (unsigned shift = 0; shift < 32; shift += 8)
      bytes.push_back(static_cast<char>(static_cast<unsigned char>(std::bit_cast<std::uint32_t>(value) >> shift)));
    return bytes;
  }

  /// As a SentencePiece model: sentencepiece_model.proto has the same numbers of kinds.
  std::unique_ptr<Tokenizer> unigrams() {
    std::string model, charsmap;
    std::uint64_t unknown = 0;
    bool bytes = false;
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      const auto& [text, score, kind] = pieces_[i];
      if (kind == PieceKind::unknown) unknown = i;
      bytes = bytes || kind == PieceKind::byte;
      model += bytes_field(
          1, bytes_field(1, text) + float_field(2, score) + number_field(3, static_cast<std::uint64_t>(kind)));
    }
    model += bytes_field(2, number_field(3, 1) + number_field(35, bytes) + number_field(40, unknown));  // unigram
    if (const JsonValue map = value("precompiled_charsmap"); !map.null())
      for (const JsonValue& byte : map.list())
        charsmap.push_back(static_cast<char>(static_cast<unsigned char>(byte_of(byte))));
    model += bytes_field(3, bytes_field(2, charsmap) + number_field(3, value("add_space_prefix").truth(false)) +
                                number_field(4, value("remove_extra_whitespaces").truth(false)) + number_field(5, 1));
    SentencePieceConfig config{.add_bos = value("add_bos_token").truth(false),
                               .add_eos = value("add_eos_token").truth(true),
                               .find_marks = config_.find_marks};
    if (const auto bos = mark("bos", {})) config.bos_piece = pieces_[static_cast<std::size_t>(*bos)].text;
    if (const auto eos = mark("eos", 1)) config.eos_piece = pieces_[static_cast<std::size_t>(*eos)].text;
    return std::make_unique<SentencePieceTokenizer>(model, name_, config);
  }
  static int byte_of(const JsonValue& value) {
    const double byte = value.number();
    value.validate(byte >= -128 && byte <= 255, "it must be a byte");
    return static_cast<int>(byte) & 255;
  }
#else
  std::unique_ptr<Tokenizer> unigrams() {
    fail("tokenizer", name_, ": SentencePiece (libsentencepiece-dev) was not there when this program was compiled");
  }
#endif

  std::string name_;
  JsonValue keys_;
  GgufTokenizerConfig config_;
  std::vector<ScoredPiece> pieces_;
};

}  // namespace detail

/// Of an open file; one without a tokenizer, or with one of another kind, is an Error.
inline std::unique_ptr<Tokenizer> load_gguf_tokenizer(const Gguf& file, const GgufTokenizerConfig& config = {}) {
  return detail::GgufTokenizerReader(file, config).read();
}
inline std::unique_ptr<Tokenizer> load_gguf_tokenizer(const std::filesystem::path& path,
                                                      const GgufTokenizerConfig& config = {}) {
  return load_gguf_tokenizer(Gguf(path), config);
}

}  // namespace eigenformer
