// Mask: which keys a query may attend to. All conditions are booleans and hold together.
#pragma once

#include <algorithm>
#include <concepts>
#include <limits>
#include <string_view>

#include "eigenformer/core/error.hpp"
#include "eigenformer/core/view.hpp"

namespace eigenformer {

/// True where a query may attend to a key: (N, M), (B, N, M) or (B, H, N, M); an extent of 1 stands for all.
struct Allowed {
  ConstView<bool, 4> view;

  Allowed() = default;
  Allowed(const std::convertible_to<ConstView<bool, 2>> auto& mask) : view(widened(mask)) {}
  Allowed(const std::convertible_to<ConstView<bool, 3>> auto& mask) : view(widened(mask)) {}
  Allowed(const std::convertible_to<ConstView<bool, 4>> auto& mask) : view(mask) {}

 private:
  static ConstView<bool, 4> widened(ConstView<bool, 2> x) {
    return {x.data(), {1, 1, x.extent(0), x.extent(1)}, {0, 0, x.stride(0), 1}};
  }
  static ConstView<bool, 4> widened(ConstView<bool, 3> x) {
    return {x.data(), {x.extent(0), 1, x.extent(1), x.extent(2)}, {x.stride(0), 0, x.stride(1), 1}};
  }
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

  /// Sets the scores of query i against keys first, first + 1, … to −inf where `allowed` forbids.
  template <class T>
  void hide(Index b, Index h, Index i, Index first, Index count, T* scores) const {
    if (!allowed.view) return;
    const bool* const may = &at(b, h, i, first);
    const Index step = allowed.view.extent(3) == 1 ? 0 : 1;
    for (Index j = 0; j < count; ++j) scores[j] = may[j * step] ? scores[j] : -std::numeric_limits<T>::infinity();
  }

  /// The same for key j and queries first, first + 1, …
  template <class T>
  void hide_column(Index b, Index h, Index first, Index count, Index j, T* scores) const {
    if (!allowed.view) return;
    const bool* const may = &at(b, h, first, j);
    const Index step = allowed.view.extent(2) == 1 ? 0 : allowed.view.stride(2);
    for (Index i = 0; i < count; ++i) scores[i] = may[i * step] ? scores[i] : -std::numeric_limits<T>::infinity();
  }

 private:
  const bool& at(Index b, Index h, Index i, Index j) const {
    const auto index = [&](int axis, Index given) { return allowed.view.extent(axis) == 1 ? Index{0} : given; };
    return allowed.view(index(0, b), index(1, h), index(2, i), index(3, j));
  }
};

}  // namespace eigenformer
