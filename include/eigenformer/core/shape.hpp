// Extents of a tensor.
#pragma once

#include <cstddef>
#include <limits>
#include <string>

#include "eigenformer/core/scalar.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

/// Extents, outermost first, e.g. Shape{B, N, D}.
template <int Rank>
struct Shape {
  static_assert(Rank >= 1);
  Index extents[static_cast<std::size_t>(Rank)];

  constexpr Index operator[](int axis) const { return extents[axis]; }
  constexpr Index& operator[](int axis) { return extents[axis]; }

  /// Number of elements.
  constexpr Index size() const { return rows() * width(); }

  /// The last extent.
  constexpr Index width() const { return extents[Rank - 1]; }

  /// Product of all extents but the last.
  constexpr Index rows() const {
    Index product = 1;
    for (int axis = 0; axis + 1 < Rank; ++axis) product *= extents[axis];
    return product;
  }

  /// The same with another last extent.
  constexpr Shape with_width(Index width) const {
    Shape shape = *this;
    shape[Rank - 1] = width;
    return shape;
  }

  friend constexpr bool operator==(const Shape&, const Shape&) = default;
};

template <class... Extents>
Shape(Extents...) -> Shape<static_cast<int>(sizeof...(Extents))>;

/// Number of elements of `size` bytes each, or −1 if there are too many for a machine to address, or an extent is
/// negative.
template <int Rank>
constexpr Index checked_count(const Shape<Rank>& shape, Index size) {
  Index limit = (std::numeric_limits<Index>::max)() / size, count = 1;
  for (int axis = 0; axis < Rank; ++axis) {
    if (shape[axis] < 0 || (shape[axis] > 0 && count > limit / shape[axis])) return -1;
    count *= shape[axis] > 0 ? shape[axis] : 1;
  }
  return shape.size();
}

/// "(2, 3, 4)"
template <int Rank>
std::string to_string(const Shape<Rank>& shape) {
  std::string text = "(";
  for (int axis = 0; axis < Rank; ++axis) text.append(axis ? ", " : "").append(std::to_string(shape[axis]));
  return text + ")";
}

}  // namespace eigenformer
