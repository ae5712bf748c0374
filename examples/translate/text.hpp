// Text as characters, characters as token ids, and pairs of texts as padded batches of like lengths.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "eigenformer/core/random.hpp"
#include "eigenformer/core/tensor.hpp"

namespace translate {

using eigenformer::Id;
using eigenformer::Index;

/// A UTF-8 character, or a single byte that is none.
struct Character {
  std::string_view bytes;
  bool valid = true;
};

/// The character that a text, which is not empty, begins with.
inline Character first_character(std::string_view text) {
  const auto at = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const unsigned lead = at(0), second = at(1);
  const std::size_t size = lead < 0x80                   ? 1
                           : lead >= 0xC2 && lead < 0xE0 ? 2
                           : lead >= 0xE0 && lead < 0xF0 ? 3
                           : lead >= 0xF0 && lead < 0xF5 ? 4
                                                         : 0;
  bool valid = size > 0;
  for (std::size_t i = 1; i < size; ++i) valid = valid && at(i) >= 0x80 && at(i) < 0xC0;
  if (lead == 0xE0) valid = valid && second >= 0xA0;  // not longer than needed
  if (lead == 0xED) valid = valid && second < 0xA0;   // not a surrogate
  if (lead == 0xF0) valid = valid && second >= 0x90;
  if (lead == 0xF4) valid = valid && second < 0x90;  // up to U+10FFFF
  return {text.substr(0, valid ? size : 1), valid};
}

inline std::vector<Character> characters(std::string_view text) {
  std::vector<Character> all;
  for (; !text.empty(); text.remove_prefix(all.back().bytes.size())) all.push_back(first_character(text));
  return all;
}

struct Pair {
  std::string source, target;
};

/// Padding, bos and eos, then the characters; one for source and target, as in the paper.
class Vocabulary {
 public:
  static constexpr Id padding = 0, bos = 1, eos = 2;

  /// Of the characters of a text, in any order.
  explicit Vocabulary(std::string_view text) {
    std::set<std::string_view> sorted;
    for (const Character& character : characters(text))
      if (character.valid) sorted.insert(character.bytes);
    for (const std::string_view character : sorted) {
      ids_.emplace(character, size());
      characters_.emplace_back(character);
    }
  }

  Index size() const { return 3 + static_cast<Index>(characters_.size()); }

  /// All characters, from which an equal vocabulary can be made.
  std::string text() const {
    std::string all;
    for (const std::string& character : characters_) all += character;
    return all;
  }

  /// Characters that it does not have are left out, and counted in `unknown`.
  std::vector<Id> encode(std::string_view text, Index* unknown = nullptr) const {
    std::vector<Id> ids;
    for (const Character& character : characters(text)) {
      const auto found = ids_.find(std::string(character.bytes));
      if (found != ids_.end()) ids.push_back(found->second);
      else if (unknown) ++*unknown;
    }
    return ids;
  }

  std::string decode(const std::vector<Id>& ids) const {
    std::string text;
    for (const Id id : ids)
      if (id > eos) text += characters_[static_cast<std::size_t>(id - eos - 1)];
    return text;
  }

 private:
  std::vector<std::string> characters_;
  std::unordered_map<std::string, Id> ids_;
};

/// Sequences as the rows of a rectangle, each with its length.
struct Padded {
  eigenformer::Tensor<Id, 2> ids;  // (B, N)
  std::vector<Index> lengths;      // (B)

  explicit Padded(const std::vector<std::vector<Id>>& rows) {
    Index longest = 0;
    for (const auto& row : rows) {
      lengths.push_back(static_cast<Index>(row.size()));
      longest = (std::max)(longest, lengths.back());
    }
    ids = eigenformer::Tensor<Id, 2>(eigenformer::Shape{static_cast<Index>(rows.size()), longest});
    std::fill_n(ids.data(), ids.size(), Vocabulary::padding);
    for (std::size_t i = 0; i < rows.size(); ++i)
      std::copy(rows[i].begin(), rows[i].end(), ids.data() + static_cast<Index>(i) * longest);
  }
};

/// What a source is to the encoder: its characters and eos.
inline std::vector<Id> source_ids(const Vocabulary& vocabulary, std::string_view text, Index* unknown = nullptr) {
  auto ids = vocabulary.encode(text, unknown);
  ids.push_back(Vocabulary::eos);
  return ids;
}

struct Batch {
  Padded source;    // (B, M): characters, eos
  Padded target;    // (B, N): bos, characters
  Padded expected;  // (B, N): characters, eos
  Index tokens;     // without padding
};

/// Batches without end, of pairs that `draw` gives.
class Batches {
 public:
  using Draw = std::function<Pair(eigenformer::RandomSequence&)>;

  /// A batch has at most `size` tokens, source and target and padding together, or a single pair.
  Batches(const Vocabulary& vocabulary, Draw draw, Index size, std::uint64_t seed)
      : vocabulary_(vocabulary), draw_(std::move(draw)), size_(size), random_(seed, 1u << 31) {}

  Batch next() {
    if (groups_.empty()) refill();
    std::vector<std::vector<Id>> source, target, expected;
    Index tokens = 0;
    for (Item& item : groups_.back()) {
      tokens += item.length();
      expected.push_back(item.target);
      expected.back().push_back(Vocabulary::eos);
      source.push_back(std::move(item.source));
      item.target.insert(item.target.begin(), Vocabulary::bos);
      target.push_back(std::move(item.target));
    }
    groups_.pop_back();
    return {Padded(source), Padded(target), Padded(expected), tokens};
  }

 private:
  struct Item {
    std::vector<Id> source, target;  // with eos; without bos and eos
    Index length() const { return static_cast<Index>(source.size() + target.size()) + 1; }
  };

  /// Some batches' worth of pairs, sorted by length, cut, and shuffled: little padding, and batches of all lengths.
  void refill() {
    std::vector<Item> items;
    for (Index tokens = 0; tokens < 50 * size_; tokens += items.back().length()) {
      const Pair pair = draw_(random_);
      items.push_back({source_ids(vocabulary_, pair.source), vocabulary_.encode(pair.target)});
    }
    std::stable_sort(items.begin(), items.end(), [](const Item& a, const Item& b) {
      return std::pair(a.source.size(), a.target.size()) < std::pair(b.source.size(), b.target.size());
    });
    std::size_t longest_target = 0;
    for (Item& item : items) {
      longest_target = (std::max)(longest_target, item.target.size());
      const std::size_t length = item.source.size() + longest_target + 1;  // sources come in order of length
      if (groups_.empty() || (groups_.back().size() + 1) * length > static_cast<std::size_t>(size_)) {
        groups_.emplace_back();
        longest_target = item.target.size();
      }
      groups_.back().push_back(std::move(item));
    }
    for (std::size_t i = groups_.size(); i > 1; --i)
      std::swap(groups_[i - 1], groups_[static_cast<std::size_t>(random_.below(static_cast<Index>(i)))]);
  }

  const Vocabulary& vocabulary_;
  Draw draw_;
  Index size_;
  eigenformer::RandomSequence random_;
  std::vector<std::vector<Item>> groups_;
};

}  // namespace translate
