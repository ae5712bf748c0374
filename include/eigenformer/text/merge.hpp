// Byte-pair encoding's inner loop: neighbours are merged, the best pair first.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <queue>
#include <tuple>
#include <vector>

#include "eigenformer/core/scalar.hpp"

namespace eigenformer::inline EIGENFORMER_ABI::detail {

/// What two neighbours become; smaller orders go first.
template <class Order>
struct Merge {
  Order order;
  Id id;
};

/// While there is a pair of neighbours with find(left, right), an optional Merge<Order>, merges the one of smallest
/// order, the leftmost among equals. A merged id must differ from both of its parts. O(n log n): a queue of candidates,
/// each checked when its turn comes, because its parts may have gone elsewhere.
template <class Order, class Find>
void merge_pairs(std::vector<Id>& ids, Find&& find) {
  struct Waiting {
    Order order;
    std::size_t left, right;  // places
    Id left_id, right_id, id;
    bool operator>(const Waiting& other) const { return std::tie(order, left) > std::tie(other.order, other.left); }
  };
  constexpr Id gone = -1;
  const std::size_t count = ids.size();
  std::vector<std::size_t> before(count), after(count);  // the neighbours that remain
  std::priority_queue<Waiting, std::vector<Waiting>, std::greater<>> queue;
  const auto consider = [&](std::size_t left, std::size_t right) {
    if (const std::optional<Merge<Order>> merge = find(ids[left], ids[right]))
      queue.push({merge->order, left, right, ids[left], ids[right], merge->id});
  };
  for (std::size_t i = 0; i < count; ++i) {
    before[i] = i - 1, after[i] = i + 1;
    if (i > 0) consider(i - 1, i);
  }
  while (!queue.empty()) {
    const Waiting best = queue.top();
    queue.pop();
    if (ids[best.left] != best.left_id || ids[best.right] != best.right_id) continue;
    ids[best.left] = best.id;
    ids[best.right] = gone;
    after[best.left] = after[best.right];
    if (after[best.left] < count) {
      before[after[best.left]] = best.left;
      consider(best.left, after[best.left]);
    }
    if (best.left > 0) consider(before[best.left], best.left);
  }
  std::erase(ids, gone);
}

}  // namespace eigenformer::detail
