// Mask: which keys a query may attend to. All conditions are booleans and hold together.
#pragma once

#include <algorithm>

#include "eigenformer/core/error.hpp"
#include "eigenformer/core/view.hpp"

namespace eigenformer {

/// True where a query may attend to a key: (N, M), (B, N, M) or (B, H, N, M); an extent of 1 stands for all.
struct Allowed {
  ConstView<bool, 4> view;

  Allowed() = default;
  Allowed(ConstView<bool, 2> mask) : Allowed(mask, {Index{1}, Index{1}, mask.extent(0), mask.extent(1)}, {0, 0, mask.stride(0), 1}) {}
  Allowed(ConstView<bool, 3> mask)
      : Allowed(mask, {mask.extent(0), Index{1}, mask.extent(1), mask.extent(2)}, {mask.stride(0), 0, mask.stride(1), 1}) {}
  Allowed(ConstView<bool, 4> mask) : view(mask) {}

 private:
  Allowed(const auto& mask, Shape<4> shape, Shape<4> strides) : view(mask.data(), shape, strides) {}
};

/// What limits attention; the empty Mask allows everything. A query that may attend to nothing yields zeros.
struct Mask {
  bool causal = false;               ///< query i sees keys j ≤ i + keys − queries: both end at the same token
  ConstView<Index, 1> key_lengths{};    ///< (B) keys of each sequence; the rest is padding
  ConstView<Index, 1> query_lengths{};  ///< (B) queries of each sequence; the rest is padding and yields zeros
  Allowed allowed{};

  /// Throws unless it fits (B, H, N, M).
  void check(std::string_view place, Index batch, Index heads, Index queries, Index keys) const {
    const auto lengths = [&](ConstView<Index, 1> given, Index limit, std::string_view what) {
      if (!given) return;
      require(given.size() == batch, place, given.size(), " ", what, " lengths for a batch of ", batch);
      for (Index b = 0; b < batch; ++b)
        require(given[b] >= 0 && given[b] <= limit, place, what, " length ", given[b], " of sequence ", b, " is not in 0…", limit);
    };
    lengths(key_lengths, keys, "key");
    lengths(query_lengths, queries, "query");
    if (!allowed.view) return;
    const Shape<4> full{batch, heads, queries, keys};
    for (int axis = 0; axis < 4; ++axis)
      require(allowed.view.extent(axis) == full[axis] || allowed.view.extent(axis) == 1, place, "a mask of ", allowed.view.shape(),
              " does not fit scores of ", full, " (batch, heads, queries, keys)");
  }

  /// Query i of sequence b sees no key from this one on.
  Index key_end(Index b, Index i, Index queries, Index keys) const {
    const Index key_count = key_lengths ? key_lengths[b] : keys, query_count = query_lengths ? query_lengths[b] : queries;
    if (i >= query_count) return 0;
    return causal ? std::clamp(i + 1 + key_count - query_count, Index{0}, key_count) : key_count;
  }

  /// Whether `allowed` lets query i see key j; both in range.
  bool allows(Index b, Index h, Index i, Index j) const {
    if (!allowed.view) return true;
    const auto at = [&](int axis, Index index) { return allowed.view.extent(axis) == 1 ? Index{0} : index; };
    return allowed.view(at(0, b), at(1, h), at(2, i), at(3, j));
  }
};

}  // namespace eigenformer
