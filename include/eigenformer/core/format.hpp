// The formats in which weights and caches can be kept.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "eigenformer/core/language.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

enum class Format : std::uint8_t {
  scalar,  ///< as the model computes: float or double
  f16,     ///< IEEE half precision; products are those of the rounded numbers in float
  bf16,    ///< the upper half of a float; so are what it is multiplied by, and the sums are float
  int8,    ///< whole numbers from −127 to 127 times a scale; what it is multiplied by likewise, sums of whole numbers
  int4,    ///< from −8 to 7 times a scale for each group of inputs; likewise
};

inline constexpr std::array<std::string_view, 5> format_names = {"scalar", "f16", "bf16", "int8", "int4"};
inline constexpr const auto& names_of(Format) { return format_names; }
inline constexpr std::string_view format_name(Format format) { return format_names[static_cast<std::size_t>(format)]; }
inline std::optional<Format> format_of(std::string_view name) {
  for (std::size_t i = 0; i < format_names.size(); ++i)
    if (format_names[i] == name) return static_cast<Format>(i);
  return std::nullopt;
}

}  // namespace eigenformer
