// Byte-level byte-pair encoding (Sennrich et al. 2016; Radford et al. 2019): text is cut into words, the bytes of a
// word are merged into longer and longer pieces, those first that were merged first in training. GPT-2's files, and the
// tokenizer.json of its kind (GPT-2, RoBERTa, LLaMA 3, Qwen). Needs ICU and nlohmann/json.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "eigenformer/core/error.hpp"
#include "eigenformer/core/scalar.hpp"
#include "eigenformer/text/added_pieces.hpp"
#include "eigenformer/text/byte_alphabet.hpp"
#include "eigenformer/text/byte_pair_files.hpp"
#include "eigenformer/text/merge.hpp"
#include "eigenformer/text/split.hpp"
#include "eigenformer/text/tokenizer.hpp"
#include "eigenformer/text/utf8.hpp"
#include "eigenformer/text/vocabulary.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

/// What the files do not say.
struct BytePairConfig {
  std::optional<std::string> bos_piece{}, eos_piece{};  ///< that mark the start and the end of a text
  bool add_bos = false, add_eos = false;                ///< encode() puts them around a text
  std::vector<std::string>
      special{};                    ///< pieces of the vocabulary that stand for no text and are found before all others
  std::vector<AddedPiece> added{};  ///< pieces that the vocabulary may lack; the ids of those that it has are its own
  // For vocab.json with merges.txt, which do not tell:
  BytePairWords words = BytePairWords::gpt2;
  bool prefix_space = false;  ///< a text begins with a space, or gets one
};

/// Encodes UTF-8; any other text is an Error. Merges go by rank, one at a time, the leftmost among equals.
class BytePairTokenizer : public Tokenizer {
 public:
  /// From tokenizer.json.
  explicit BytePairTokenizer(const std::filesystem::path& path, const BytePairConfig& config = {}) {
    take(detail::TokenizerJson(path).read(), path.string(), path.string(), config);
  }

  /// From vocab.json and merges.txt.
  BytePairTokenizer(const std::filesystem::path& vocabulary, const std::filesystem::path& merges,
                    const BytePairConfig& config = {})
      : BytePairTokenizer(detail::read_vocabulary_and_merges(vocabulary, merges), vocabulary, merges, config) {}

  /// The same, of files that have been read.
  BytePairTokenizer(detail::BytePairFiles files, const std::filesystem::path& vocabulary,
                    const std::filesystem::path& merges, const BytePairConfig& config) {
    detail::add_words(config.words, config.prefix_space, files);
    take(std::move(files), vocabulary.string(), merges.string(), config);
  }

  /// Of what something else has read; `name` stands for it in errors.
  BytePairTokenizer(detail::BytePairFiles files, const std::string& name, const BytePairConfig& config) {
    take(std::move(files), name, name, config);
  }

  std::vector<Id> encode(std::string_view text) const override {
    ensure(text.size() <= 0x7fffffff, "tokenizer", "a text of ", text.size(), " bytes is too long");
    const std::size_t broken = detail::find_broken_utf8(text);
    ensure(broken == std::string_view::npos, "tokenizer", "the text is not UTF-8 at byte ", broken);
    std::vector<Id> ids = front_;
    const auto push = [&](Id id) { ids.push_back(id); };
    verbatim_.each_part(text, push, [&](std::string_view part) {
      const std::string composed = composes_ ? detail::compose(part) : std::string();
      normalized_.each_part(composes_ ? composed : part, push,
                            [&](std::string_view words) { encode_words(words, 0, ids); });
    });
    ids.insert(ids.end(), back_.begin(), back_.end());
    return ids;
  }

  Id size() const override { return size_; }
  std::optional<Id> bos() const override { return bos_; }
  std::optional<Id> eos() const override { return eos_; }
  std::optional<Id> find(std::string_view piece) const override {
    for (const detail::IdsByText* const ids : {&ids_, &added_ids_})
      if (const auto found = ids->find(piece); found != ids->end()) return found->second;
    return {};
  }

  void append(Id id, int&, std::string& bytes) const override {
    if (const auto found = pieces_.find(id); found != pieces_.end()) bytes.append(found->second);
  }

 private:
  struct Rank {
    std::uint32_t rank;
    Id id;
  };
  static std::uint64_t pair(Id left, Id right) {
    return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
  }

  void take(detail::BytePairFiles files, const std::string& vocabulary, const std::string& merges,
            const BytePairConfig& config) {
    const auto validate = [](bool holds, const std::string& file, const auto&... parts) {
      ensure(holds, "tokenizer", file, ": ", parts...);
    };
    const auto add = [&](detail::IdsByText& ids, const std::string& piece, Id id, std::string bytes) {
      if (!ids.emplace(piece, id).second) return;
      validate(id < (std::numeric_limits<Id>::max)(), vocabulary, "the piece ", detail::shown(piece), " has the id ",
               id);
      validate(pieces_.emplace(id, std::move(bytes)).second, vocabulary, "two pieces have the id ", id,
               ", one of them ", detail::shown(piece));
      size_ = (std::max)(size_, id + 1);
    };
    ids_.reserve(files.vocabulary.size());
    pieces_.reserve(files.vocabulary.size());
    validate(!files.vocabulary.empty(), vocabulary, "the vocabulary is empty");
    for (const auto& [piece, id] : files.vocabulary) add(ids_, piece, id, from_byte_characters(piece).value_or(piece));
    for (std::size_t byte = 0; byte < 256; ++byte)
      bytes_[byte] =
          find(to_byte_characters(std::string(1, static_cast<char>(static_cast<unsigned char>(byte))))).value_or(-1);

    std::uint32_t rank = 0;
    for (const auto& [left, right] : files.merges) {
      const std::optional<Id> parts[] = {find(left), find(right), find(left + right)};
      validate(!left.empty() && !right.empty() && parts[0] && parts[1] && parts[2], merges, "merge ", rank, " joins ",
               detail::shown(left), " and ", detail::shown(right), ", but ",
               parts[0] ? parts[1] ? "the result" : "the second" : "the first", " is no piece of the vocabulary");
      ranks_[pair(*parts[0], *parts[1])] = {rank++, *parts[2]};
    }

    const auto known = [&](const std::string& piece, const char* what) {
      const std::optional<Id> id = find(piece);
      validate(id.has_value(), vocabulary, "the ", what, " piece ", detail::shown(piece), " is not in the vocabulary");
      return *id;
    };
    const auto add_found = [&](AddedPiece piece) {
      validate(!piece.text.empty(), vocabulary, "an added piece is empty");
      const Id id = piece.id.value();
      if (!ids_.contains(piece.text)) add(added_ids_, piece.text, id, piece.text);
      validate(find(piece.text) == id, vocabulary, "the piece ", detail::shown(piece.text), " has two ids");
      if (piece.special) pieces_[id].clear();
      if (piece.special && !files.finds_marks) return;
      if (verbatim_.contains(piece.text) || normalized_.contains(piece.text)) return;
      if (piece.normalized && files.composes) piece.text = detail::compose(piece.text);
      (piece.normalized ? normalized_ : verbatim_).add(std::move(piece), id);
    };
    for (const AddedPiece& piece : files.added) add_found(piece);
    for (AddedPiece piece : config.added) {
      if (const std::optional<Id> id = find(piece.text)) piece.id = id;
      else if (!piece.id || pieces_.contains(*piece.id)) piece.id = size_;
      add_found(std::move(piece));
    }
    for (const std::string& piece : config.special) {
      validate(!piece.empty(), vocabulary, "a special piece is empty");
      add_found({.text = piece, .id = known(piece, "special"), .special = true});
    }
    for (const auto* const marks : {&files.front, &files.back})
      for (const Id id : *marks)
        validate(pieces_.contains(id), vocabulary, "the post_processor puts id ", id, ", which is in no vocabulary");

    if (files.front.size() == 1) bos_ = files.front[0];
    if (files.back.size() == 1) eos_ = files.back[0];
    const auto take_mark = [&](const std::optional<std::string>& piece, const char* what, std::optional<Id>& mark) {
      if (piece) mark = known(*piece, what), add_found({.text = *piece, .id = mark, .special = true});
      if (mark) pieces_[*mark].clear();
    };
    take_mark(config.bos_piece, "bos", bos_);
    take_mark(config.eos_piece, "eos", eos_);
    if (config.add_bos && files.front.empty())
      validate(bos_.has_value(), vocabulary, "there is no bos piece"), files.front = {*bos_};
    if (config.add_eos && files.back.empty())
      validate(eos_.has_value(), vocabulary, "there is no eos piece"), files.back = {*eos_};
    steps_ = std::move(files.steps);
    front_ = std::move(files.front);
    back_ = std::move(files.back);
    composes_ = files.composes;
    whole_words_ = files.whole_words;
  }

  void encode_words(std::string_view text, std::size_t step, std::vector<Id>& ids) const {
    if (text.empty()) return;
    if (step == steps_.size()) return encode_word(text, ids);
    const auto& split = steps_[step].split;
    if (split) (*split)(text, [&](std::string_view part) { encode_words(part, step + 1, ids); });
    else if (text.front() == ' ') encode_words(text, step + 1, ids);
    else encode_words(" " + std::string(text), step + 1, ids);
  }

  void encode_word(std::string_view word, std::vector<Id>& ids) const {
    if (whole_words_)
      if (const auto found = ids_.find(to_byte_characters(word)); found != ids_.end())
        return ids.push_back(found->second);
    std::vector<Id> pieces;
    for (const char c : word) {
      const auto byte = static_cast<unsigned char>(c);
      ensure(bytes_[byte] >= 0, "tokenizer", "byte ", int{byte}, " of the text has no piece in the vocabulary");
      pieces.push_back(bytes_[byte]);
    }
    detail::merge_pairs<std::uint32_t>(pieces, [&](Id left, Id right) -> std::optional<detail::Merge<std::uint32_t>> {
      const auto found = ranks_.find(pair(left, right));
      if (found == ranks_.end()) return {};
      return detail::Merge<std::uint32_t>{found->second.rank, found->second.id};
    });
    ids.insert(ids.end(), pieces.begin(), pieces.end());
  }

  detail::IdsByText ids_, added_ids_;           // as spelled in the file; the words of a text are only of the first
  std::unordered_map<Id, std::string> pieces_;  // their bytes
  std::array<Id, 256> bytes_{};
  std::unordered_map<std::uint64_t, Rank> ranks_;
  detail::AddedPieces verbatim_, normalized_;
  std::vector<detail::WordStep> steps_;
  std::vector<Id> front_, back_;
  std::optional<Id> bos_, eos_;
  Id size_ = 0;
  bool composes_ = false, whole_words_ = false;
};

}  // namespace eigenformer
