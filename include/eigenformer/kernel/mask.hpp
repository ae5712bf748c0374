// Mask: which keys a query may attend to. All conditions are booleans and hold together.
#pragma once

#include <algorithm>
#include <concepts>
#include <string_view>

#include "eigenformer/core/error.hpp"
#include "eigenformer/core/view.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

/// True where a query may attend to a key: (N, M), (B, N, M) or (B, H, N, M); an extent of 1 stands for all.
struct Allowed {
  ConstView<bool, 4> view;

  Allowed() = default;
  Allowed(const std::convertible_to<ConstView<bool, 2>> auto& mask) : view(widened(mask)) {}
  Allowed(const std::convertible_to<ConstView<bool, 3>> auto& mask) : view(widened(mask)) {}
  Allowed(const std::convertible_to<ConstView<bool, 4>> auto& mask) : view(mask) {}

 private:
  static ConstView<bool, 4> widened(ConstView<bool, 2> x) {
    if (!x) return {};
    return {x.data(), {1, 1, x.extent(0), x.extent(1)}, {0, 0, x.stride(0), 1}};
  }
  static ConstView<bool, 4> widened(ConstView<bool, 3> x) {
    if (!x) return {};
    return {x.data(), {x.extent(0), 1, x.extent(1), x.extent(2)}, {x.stride(0), 0, x.stride(1), 1}};
  }
};

/// What limits attention; the empty Mask allows everything. A query that may attend to nothing yields zeros.
struct Mask {
  bool causal = false;                  ///< query i sees keys j ≤ i + keys − queries: both end at the same token
  Index window = 0;                     ///< if not 0: only keys less than so many tokens away (Beltagy et al. 2020)
  ConstView<Index, 1> key_lengths{};    ///< (B) keys of each sequence; the rest is padding
  ConstView<Index, 1> query_lengths{};  ///< (B) queries of each sequence; the rest is padding and yields zeros
  ConstView<Index, 1> prefixes{};  ///< (B) keys that every query sees although the mask is causal (Raffel et al. 2020)
  Allowed allowed{};

  /// The same with a window of no more than this, unless it is 0.
  Mask within(Index widest) const {
    Mask mask = *this;
    if (widest > 0 && (window == 0 || window > widest)) mask.window = widest;
    return mask;
  }

  /// Throws unless the window may be one.
  void check_window(std::string_view place) const {
    ensure(window >= 0, place, "window ", window, " is invalid: must be 0 (none) or more");
  }

  /// Throws unless the lengths and prefixes fit B sequences of N queries and M keys.
  void check_lengths(std::string_view place, Index batch, Index queries, Index keys) const {
    const auto lengths = [&](ConstView<Index, 1> given, Index limit, std::string_view what) {
      if (!given) return;
      ensure(given.size() == batch, place, given.size(), " ", what, " lengths for a batch of ", batch);
      for (Index b = 0; b < batch; ++b)
        ensure(given[b] >= 0 && given[b] <= limit, place, what, " length ", given[b], " of sequence ", b,
               " is not in 0…", limit);
    };
    lengths(key_lengths, keys, "key");
    lengths(query_lengths, queries, "query");
    lengths(prefixes, keys, "prefix");
  }

  /// Throws unless it fits (B, H, N, M).
  void validate(std::string_view place, Index batch, Index heads, Index queries, Index keys) const {
    check_lengths(place, batch, queries, keys);
    check_window(place);
    ensure(window == 0 || !prefixes, place, "a window and prefixes exclude each other");
    if (!allowed.view) return;
    const Shape<4> full{batch, heads, queries, keys};
    for (int axis = 0; axis < 4; ++axis)
      ensure(allowed.view.extent(axis) == full[axis] || allowed.view.extent(axis) == 1, place, "a mask of ",
             allowed.view.shape(), " does not fit scores of ", full, " (batch, heads, queries, keys)");
  }

  /// Keys [begin, end).
  struct Range {
    Index begin, end;

    /// Which of keys first, first + 1, … they are.
    void mark(Index first, Index count, bool* inside) const {
      for (Index j = 0; j < count; ++j) inside[j] = begin <= first + j && first + j < end;
    }
  };

  /// Which key is query i's own: both sequences end at the same token.
  Index position(Index b, Index i, Index queries, Index keys) const {
    return i + (key_lengths ? key_lengths[b] : keys) - (query_lengths ? query_lengths[b] : queries);
  }

  /// The keys that query i of sequence b may see, if `allowed` does not forbid.
  Range range(Index b, Index i, Index queries, Index keys) const {
    const Index key_count = key_lengths ? key_lengths[b] : keys, own = position(b, i, queries, keys);
    if (query_lengths && i >= query_lengths[b]) return {0, 0};
    Index end = causal ? std::clamp(own + 1, Index{0}, key_count) : key_count;
    if (prefixes) end = (std::max)(end, (std::min)(prefixes[b], key_count));
    if (window == 0) return {0, end};
    const Index reach = (std::min)(window, queries + keys);  // no two tokens are further apart
    end = (std::min)(end, std::clamp(own + reach, Index{0}, key_count));
    return {std::clamp(own - reach + 1, Index{0}, end), end};
  }

  /// Sets what a line has of query i for keys first, first + 1, … to `hidden` where `allowed` forbids.
  template <class T>
  void hide(Index b, Index h, Index i, Index first, Index count, T* line, T hidden) const {
    if (!allowed.view || count <= 0) return;
    const bool* const may = &at(b, h, i, first);
    if (allowed.view.extent(3) > 1)
      for (Index j = 0; j < count; ++j) line[j] = may[j] ? line[j] : hidden;
    else if (!*may) std::fill_n(line, count, hidden);
  }

 private:
  const bool& at(Index b, Index h, Index i, Index j) const {
    const auto axis_index = [&](int axis, Index given) { return allowed.view.extent(axis) == 1 ? Index{0} : given; };
    return allowed.view(axis_index(0, b), axis_index(1, h), axis_index(2, i), axis_index(3, j));
  }
};

}  // namespace eigenformer
