// Settings: their ranges, checked in one way, and the numbers that parts are made with.
#pragma once

#include <concepts>
#include <limits>
#include <string_view>
#include <utility>

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

/// A number of a part: read like any other, but given by the constructor alone, so that the model's config, which is
/// saved with its weights, stays true. A whole part can be assigned to; for other numbers, make one of another config.
template <class Value>
class Fixed {
 public:
  constexpr explicit Fixed(Value value) : value_(std::move(value)) {}
  constexpr operator const Value&() const { return value_; }
  constexpr const Value* operator->() const { return &value_; }

 private:
  Value value_;
};

}  // namespace eigenformer
