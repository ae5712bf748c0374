// Any tokenizer, from a file or a folder. Kinds whose library is not there when the program is compiled are an Error.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>

#include "eigenformer/core/error.hpp"
#include "eigenformer/core/open_file.hpp"
#include "eigenformer/text/llama2c_tokenizer.hpp"
#include "eigenformer/text/tokenizer.hpp"
#if __has_include(<unicode/regex.h>) && __has_include(<nlohmann/json.hpp>)
#define EIGENFORMER_HAS_BYTE_PAIR_TOKENIZER 1
#include "eigenformer/text/byte_pair_tokenizer.hpp"
#endif
#if __has_include(<sentencepiece_processor.h>)
#define EIGENFORMER_HAS_SENTENCEPIECE_TOKENIZER 1
#include "eigenformer/text/sentencepiece_tokenizer.hpp"
#endif

namespace eigenformer {

namespace detail {

#if defined(EIGENFORMER_HAS_BYTE_PAIR_TOKENIZER)
/// The marks as tokenizer_config.json beside the file names them, if it is there.
inline BytePairConfig read_marks(const std::filesystem::path& folder) {
  BytePairConfig config;
  const std::filesystem::path path = folder / "tokenizer_config.json";
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return config;
  const std::string name = path.string();
  const nlohmann::json json = parse_json(read_whole_file(path), name);
  const auto read = [&](const char* key, std::optional<std::string>& mark) {
    const JsonValue value = JsonValue(json, name, "")[key];
    if (!value.null()) mark = value.is_text() ? value.text() : value["content"].text();
  };
  read("bos_token", config.begin);
  read("eos_token", config.end);
  return config;
}
#endif

inline std::unique_ptr<Tokenizer> load_byte_pair(const std::filesystem::path& path) {
#if defined(EIGENFORMER_HAS_BYTE_PAIR_TOKENIZER)
  const BytePairConfig config = read_marks(path.parent_path());
  if (path.filename() == "vocab.json") return std::make_unique<BytePairTokenizer>(path, path.parent_path() / "merges.txt", config);
  return std::make_unique<BytePairTokenizer>(path, config);
#else
  fail("tokenizer", path.string(), ": ICU (libicu-dev) or nlohmann/json was not there when this program was compiled");
#endif
}

inline std::unique_ptr<Tokenizer> load_sentencepiece(const std::filesystem::path& path) {
#if defined(EIGENFORMER_HAS_SENTENCEPIECE_TOKENIZER)
  return std::make_unique<SentencePieceTokenizer>(path);
#else
  fail("tokenizer", path.string(), ": SentencePiece (libsentencepiece-dev) was not there when this program was compiled");
#endif
}

}  // namespace detail

/// From a folder: the first of tokenizer.json, vocab.json with merges.txt, tokenizer.model and tokenizer.bin that is there. From a
/// file: .json, .model (SentencePiece) or .bin (llama2.c). The begin and end of a byte-pair tokenizer are those of the
/// tokenizer_config.json beside it, if there is one.
inline std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& path) {
  std::filesystem::path file = path;
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    for (const char* const name : {"tokenizer.json", "vocab.json", "tokenizer.model", "tokenizer.bin"}) {
      file = path / name;
      if (std::filesystem::exists(file, ignored)) break;
    }
    require(std::filesystem::exists(file, ignored), "tokenizer", path.string(),
            ": the folder has no tokenizer.json, vocab.json, tokenizer.model or tokenizer.bin");
  }
  require(!detail::is_missing(file), "tokenizer", file.string(), ": there is no such file");
  if (file.extension() == ".json") return detail::load_byte_pair(file);
  if (file.extension() == ".model") return detail::load_sentencepiece(file);
  if (file.extension() == ".bin") return std::make_unique<Llama2cTokenizer>(file);
  fail("tokenizer", file.string(), ": this is neither a folder nor a .json, .model or .bin file");
}

}  // namespace eigenformer
