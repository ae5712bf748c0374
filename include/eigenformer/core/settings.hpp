// The ranges of settings, checked in one way.
#pragma once

#include <concepts>
#include <limits>
#include <string_view>

#include "eigenformer/core/error.hpp"
#include "eigenformer/core/scalar.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

/// Of an axis: token ids have 32 bits.
inline constexpr Index largest_extent = (std::numeric_limits<Id>::max)();
/// Of what is not an axis: steps, tokens.
inline constexpr Index largest_index = (std::numeric_limits<Index>::max)();
/// Of a stack.
inline constexpr Index most_layers = 65536;
/// Of reals: they and their inverses are finite as float.
inline constexpr double smallest_real = 1e-30, largest_real = 1e30;

/// Fails unless low ≤ value ≤ high.
inline void require_range(std::string_view place, std::string_view field, std::same_as<Index> auto value, Index low,
                          Index high = largest_extent) {
  ensure(low <= value && value <= high, place, field, " ", value, " is invalid: must be in ", low, "…", high);
}

/// Fails unless low ≤ value < high, which NaN is not.
inline void require_range(std::string_view place, std::string_view field, std::same_as<double> auto value, double low,
                          double high = largest_real) {
  ensure(low <= value && value < high, place, field, " ", value, " is invalid: must be in [", low, ", ", high, ")");
}

}  // namespace eigenformer
