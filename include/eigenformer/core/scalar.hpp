// The number types.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

#include "eigenformer/core/language.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

/// Extents, strides and counts; signed, the same type as Eigen::Index.
using Index = std::ptrdiff_t;

/// Token ids and class labels.
using Id = std::int32_t;

/// A scalar without a value: a model of it has its shape and no memory, to be counted and listed, not to be run.
struct NoValue {};

/// What weights and activations are made of.
template <class T>
concept Real = std::same_as<T, float> || std::same_as<T, double> || std::same_as<T, NoValue>;

}  // namespace eigenformer
