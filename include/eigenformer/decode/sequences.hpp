// Token ids of one sequence, or of several.
#pragma once

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <utility>
#include <vector>

#include "eigenformer/core/error.hpp"
#include "eigenformer/core/scalar.hpp"
#include "eigenformer/core/tensor.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

/// What decoding takes: vectors of ids, {{1, 5}, {7}, {}}, or a single one, {1, 5, 7}, which is the same as {{1, 5,
/// 7}}.
class Sequences {
 public:
  std::vector<std::vector<Id>> ids;

  /// What may stand between the braces: ids, or sequences, not both.
  class Item {
   public:
    Item() = default;
    Item(Id id) : ids_{id}, is_id_(true) {}
    Item(std::initializer_list<Id> sequence) : ids_(sequence) {}
    Item(std::vector<Id> sequence) : ids_(std::move(sequence)) {}

   private:
    friend class Sequences;
    std::vector<Id> ids_;
    bool is_id_ = false;
  };

  Sequences(std::initializer_list<Item> items) {
    for (const Item& item : items) {
      ensure(item.is_id_ == items.begin()->is_id_, "decode", "ids and sequences of ids side by side");
      if (!item.is_id_ || ids.empty()) ids.push_back(item.ids_);
      else ids[0].push_back(item.ids_[0]);
    }
  }
  Sequences(std::vector<std::vector<Id>> several) : ids(std::move(several)) {}
  Sequences(std::vector<Id> one) : ids{std::move(one)} {}
};

namespace detail {

/// A model that goes on from prompts; others say what belongs to sources.
template <class Model>
inline constexpr bool decodes_only = requires(const Model& model) {
  model.start(Index{1});
};

/// Sequences as one tensor, with zeros behind those that are shorter.
struct PaddedIds {
  Tensor<Id, 2> ids;         // (B, N)
  Tensor<Index, 1> lengths;  // (B)

  explicit PaddedIds(const std::vector<std::vector<Id>>& sequences) {
    std::size_t longest = 1;
    for (const auto& sequence : sequences) longest = (std::max)(longest, sequence.size());
    ids = Tensor<Id, 2>(Shape{static_cast<Index>(sequences.size()), static_cast<Index>(longest)});
    lengths = Tensor<Index, 1>(Shape{static_cast<Index>(sequences.size())});
    for (std::size_t b = 0; b < sequences.size(); ++b) {
      std::copy(sequences[b].begin(), sequences[b].end(), &ids(static_cast<Index>(b), 0));
      lengths(static_cast<Index>(b)) = static_cast<Index>(sequences[b].size());
    }
  }
};

}  // namespace detail
}  // namespace eigenformer
