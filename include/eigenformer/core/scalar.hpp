// The number types.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

namespace eigenformer {

/// Extents, strides and counts; signed, the same type as Eigen::Index.
using Index = std::ptrdiff_t;

/// Token ids and class labels.
using Id = std::int32_t;

/// What weights and activations are made of.
template <class T>
concept Real = std::same_as<T, float> || std::same_as<T, double>;

}  // namespace eigenformer
