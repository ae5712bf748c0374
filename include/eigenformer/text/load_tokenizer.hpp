// Any tokenizer, from a file or a folder. Kinds whose library is not there when the program is compiled are an Error.
#pragma once

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "eigenformer/core/error.hpp"
#include "eigenformer/core/open_file.hpp"
#include "eigenformer/text/llama2c_tokenizer.hpp"
#include "eigenformer/text/tokenizer.hpp"
#if __has_include(<nlohmann/json.hpp>)
#define EIGENFORMER_HAS_TOKENIZER_SETTINGS 1
#include "eigenformer/text/gguf_tokenizer.hpp"
#include "eigenformer/text/tokenizer_settings.hpp"
#endif
#if __has_include(<unicode/regex.h>) && __has_include(<nlohmann/json.hpp>)
#define EIGENFORMER_HAS_BYTE_PAIR_TOKENIZER 1
#include "eigenformer/text/byte_pair_tokenizer.hpp"
#endif
#if __has_include(<sentencepiece_processor.h>)
#define EIGENFORMER_HAS_SENTENCEPIECE_TOKENIZER 1
#include "eigenformer/text/sentencepiece_tokenizer.hpp"
#endif
#if __has_include(<sentencepiece_processor.h>) && __has_include(<nlohmann/json.hpp>)
#include "eigenformer/text/marian_tokenizer.hpp"
#endif

namespace eigenformer::inline EIGENFORMER_ABI {

namespace detail {

#if defined(EIGENFORMER_HAS_BYTE_PAIR_TOKENIZER)
/// What transformers' class of that name takes vocab.json and merges.txt for, unless told otherwise.
struct BytePairKind {
  std::string_view name;
  BytePairWords words;
  std::string bos, eos;
  bool around;                       // encode() puts these marks
  std::vector<std::string> special;  // if they are in the vocabulary
};

inline const BytePairKind* find_byte_pair_kind(std::string_view name) {
  using enum BytePairWords;
  static const std::vector<std::string> masked{"<unk>", "<pad>", "<mask>"};
  static const std::vector<BytePairKind> kinds{
      {"GPT2Tokenizer", gpt2, "<|endoftext|>", "<|endoftext|>", false, {}},
      {"CodeGenTokenizer", gpt2, "<|endoftext|>", "<|endoftext|>", false, {}},
      {"GPTNeoXTokenizer", gpt_neox, "<|endoftext|>", "<|endoftext|>", false, {"<|padding|>"}},
      {"CohereTokenizer",
       cohere,
       "<BOS_TOKEN>",
       "<|END_OF_TURN_TOKEN|>",
       false,
       {"<UNK>", "<PAD>", "<CLS>", "<SEP>", "<MASK_TOKEN>"}},
      {"Qwen2Tokenizer", qwen2, "", "<|endoftext|>", false, {}},
      {"Qwen3_5Tokenizer", qwen3_5, "", "<|endoftext|>", false, {}},
      {"RobertaTokenizer", gpt2, "<s>", "</s>", true, masked},
      {"BartTokenizer", gpt2, "<s>", "</s>", true, masked},
      {"LEDTokenizer", gpt2, "<s>", "</s>", true, masked},
      {"LongformerTokenizer", gpt2, "<s>", "</s>", true, masked},
      {"MvpTokenizer", gpt2, "<s>", "</s>", true, masked}};
  const auto found =
      std::find_if(kinds.begin(), kinds.end(), [&](const BytePairKind& kind) { return kind.name == name; });
  return found == kinds.end() ? nullptr : &*found;
}

inline std::unique_ptr<Tokenizer> load_vocabulary_and_merges(const std::filesystem::path& path,
                                                             const TokenizerSettings& settings, BytePairConfig config) {
  const std::filesystem::path merges = path.parent_path() / "merges.txt";
  BytePairFiles files = read_vocabulary_and_merges(path, merges);
  const BytePairKind* const kind = find_byte_pair_kind(settings.kind);
  ensure(kind || settings.kind.empty(), "tokenizer", path.string(), ": how a ", settings.kind,
         " cuts a text into words is not known; its tokenizer.json would tell");
  config.prefix_space = settings.prefix_space.value_or(false);
  config.add_bos = settings.add_bos.value_or(false) && settings.bos;
  config.add_eos = settings.add_eos.value_or(false) && settings.eos;
  if (kind) {
    const auto known = [&](const std::string& piece) {
      return std::any_of(files.vocabulary.begin(), files.vocabulary.end(),
                         [&](const auto& entry) { return entry.first == piece; });
    };
    config.words = kind->words;
    if (!config.bos_piece && !settings.no_bos && known(kind->bos)) config.bos_piece = kind->bos;
    if (!config.eos_piece && !settings.no_eos && known(kind->eos)) config.eos_piece = kind->eos;
    std::copy_if(kind->special.begin(), kind->special.end(), std::back_inserter(config.special), known);
    config.add_bos = config.bos_piece && settings.add_bos.value_or(kind->around);
    config.add_eos = config.eos_piece && settings.add_eos.value_or(kind->around);
  }
  return std::make_unique<BytePairTokenizer>(std::move(files), path, merges, config);
}
#endif

inline std::unique_ptr<Tokenizer> load_byte_pair(const std::filesystem::path& path) {
#if defined(EIGENFORMER_HAS_BYTE_PAIR_TOKENIZER)
  const TokenizerSettings settings = SettingsReader(path.parent_path()).read();
  const BytePairConfig config{.bos_piece = settings.bos, .eos_piece = settings.eos, .added = settings.added};
  if (path.filename() == "vocab.json") return load_vocabulary_and_merges(path, settings, config);
  return std::make_unique<BytePairTokenizer>(
      path, config);  // its post_processor says which marks are put, and nothing else does
#else
  fail("tokenizer", path.string(), ": ICU (libicu-dev) or nlohmann/json was not there when this program was compiled");
#endif
}

#if defined(EIGENFORMER_HAS_SENTENCEPIECE_TOKENIZER) && defined(EIGENFORMER_HAS_TOKENIZER_SETTINGS)
/// Added pieces and marks of a tokenizer.json that may be of a kind that we cannot read.
inline void take_from_tokenizer_json(const std::filesystem::path& path, SentencePieceConfig& config) try {
  const JsonFile file(path);
  read_added_pieces(file.value(), config.added);
  const PostProcessor marks(file.value()["post_processor"]);
  config.add_bos = config.add_bos || !marks.front.empty();
  config.add_eos = config.add_eos || !marks.back.empty();
} catch (const Error&) {  // then it tells nothing
}

/// T5's sentinels have the ids behind the model's pieces, the last one first.
inline void add_sentinels(Id count, SentencePieceConfig& config) {
  const auto given = [](const AddedPiece& piece) { return piece.id && piece.text == "<extra_id_0>"; };
  if (std::any_of(config.added.begin(), config.added.end(), given)) return;
  std::vector<AddedPiece> sentinels;
  for (Id i = count; i-- > 0;) sentinels.push_back({.text = "<extra_id_" + std::to_string(i) + ">", .special = true});
  config.added.insert(config.added.begin(), sentinels.begin(), sentinels.end());
}

inline SentencePieceConfig sentencepiece_config(const std::filesystem::path& path) {
  const TokenizerSettings settings = SettingsReader(path.parent_path()).read();
  const bool t5 = settings.kind == "T5Tokenizer",
             llama = settings.kind == "LlamaTokenizer" || settings.kind == "CodeLlamaTokenizer";
  const bool t5_file = path.filename() == "spiece.model";
  ensure(!t5_file || t5 || settings.kind.empty(), "tokenizer", path.string(), ": the pieces of a ", settings.kind,
         " have other ids than those of this file, which are not known");
  SentencePieceConfig config{.add_bos = settings.add_bos.value_or(false),
                             .add_eos = settings.add_eos.value_or(false) || (t5 && settings.names_kind),
                             .bos_piece = settings.bos,
                             .eos_piece = settings.eos,
                             .added = settings.added,
                             .find_marks = settings.found,
                             .prefix_once = llama && !settings.legacy.value_or(false)};
  if (const auto json = path.parent_path() / "tokenizer.json"; !is_missing(json))
    take_from_tokenizer_json(json, config);
  if (t5 || (t5_file && settings.kind.empty())) add_sentinels(settings.extra_ids.value_or(100), config);
  return config;
}
#endif

inline std::unique_ptr<Tokenizer> load_sentencepiece(const std::filesystem::path& path) {
#if !defined(EIGENFORMER_HAS_SENTENCEPIECE_TOKENIZER)
  fail("tokenizer", path.string(),
       ": SentencePiece (libsentencepiece-dev) was not there when this program was compiled");
#elif !defined(EIGENFORMER_HAS_TOKENIZER_SETTINGS)
  ensure(is_missing(path.parent_path() / "tokenizer_config.json"), "tokenizer", path.string(),
         ": nlohmann/json, to read tokenizer_config.json, was not there when this program was compiled");
  return std::make_unique<SentencePieceTokenizer>(path);
#else
  if (path.filename() == "source.spm")
    return std::make_unique<MarianTokenizer>(path, path.parent_path() / "vocab.json");
  return std::make_unique<SentencePieceTokenizer>(path, sentencepiece_config(path));
#endif
}

inline std::unique_ptr<Tokenizer> load_gguf_tokenizer_file(const std::filesystem::path& path) {
#if defined(EIGENFORMER_HAS_TOKENIZER_SETTINGS)
  return load_gguf_tokenizer(path);
#else
  fail("tokenizer", path.string(), ": nlohmann/json was not there when this program was compiled");
#endif
}

inline std::unique_ptr<Tokenizer> load_tokenizer_file(const std::filesystem::path& file) {
  ensure(!is_missing(file), "tokenizer", file.string(), ": there is no such file");
  if (file.extension() == ".json") return load_byte_pair(file);
  if (file.extension() == ".model" || file.extension() == ".spm") return load_sentencepiece(file);
  if (file.extension() == ".gguf") return load_gguf_tokenizer_file(file);
  if (file.extension() == ".bin") return std::make_unique<Llama2cTokenizer>(file);
  fail("tokenizer", file.string(), ": this is neither a folder nor a .json, .model, .spm, .gguf or .bin file");
}

}  // namespace detail

/// From a folder: the first that is there of tokenizer.json, vocab.json with merges.txt, tokenizer.model, spiece.model,
/// source.spm with vocab.json (Marian's) and tokenizer.bin; if tokenizer.json is of a kind that is not understood, a
/// .model file beside it. From a file: .json, .model (SentencePiece), source.spm, .gguf or .bin (llama2.c). The files
/// of Hugging Face beside it count: config.json and tokenizer_config.json for the class (the words of vocab.json with
/// merges.txt) and for the marks that encode() puts, tokenizer_config.json, special_tokens_map.json and
/// added_tokens.json for added pieces, bos and eos. As in transformers, a tokenizer.json's own post_processor goes
/// before add_bos_token and add_eos_token.
inline std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) return detail::load_tokenizer_file(path);
  const auto first_of = [&](std::initializer_list<const char*> names) {
    for (const char* const name : names)
      if (!detail::is_missing(path / name)) return path / name;
    return std::filesystem::path();
  };
  const std::filesystem::path json = path / "tokenizer.json", model = first_of({"tokenizer.model", "spiece.model"});
  if (detail::is_missing(json) || model.empty()) {
    if (!detail::is_missing(json)) return detail::load_tokenizer_file(json);
    if (!detail::is_missing(path / "merges.txt")) return detail::load_tokenizer_file(path / "vocab.json");
    const auto file = model.empty() ? first_of({"source.spm", "vocab.json", "tokenizer.bin"}) : model;
    ensure(!file.empty(), "tokenizer", path.string(),
           ": the folder has no tokenizer.json, vocab.json, tokenizer.model or tokenizer.bin, nor spiece.model or "
           "source.spm");
    return detail::load_tokenizer_file(file);
  }
  try {
    return detail::load_tokenizer_file(json);
  } catch (const Error&) {
    try {
      return detail::load_tokenizer_file(model);
    } catch (const Error&) {  // the first reason is the better one
    }
    throw;
  }
}

}  // namespace eigenformer
