// Numbers of 16 bits: IEEE 754's half precision (f16) and the upper half of a float (bf16).
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "eigenformer/core/language.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

struct Half {
  std::uint16_t bits;
};
struct BrainFloat {
  std::uint16_t bits;
};

inline float widen(BrainFloat x) { return std::bit_cast<float>(std::uint32_t{x.bits} << 16); }
inline float widen(Half x) {
  const std::uint32_t sign = std::uint32_t{x.bits} >> 15 << 31, exponent = x.bits >> 10 & 0x1fu,
                      fraction = x.bits & 0x3ffu;
  if (exponent == 0) return std::copysign(static_cast<float>(fraction) * 0x1p-24f, std::bit_cast<float>(sign));
  const std::uint32_t rebiased = exponent == 0x1f ? 0xff : exponent + 112;
  return std::bit_cast<float>(sign | rebiased << 23 | fraction << 13);
}

/// The nearest number, of two the even one; NaN stays NaN.
inline BrainFloat to_brain_float(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<std::uint16_t>(bits >> 16 | 0x40u)};
  return {static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16)};
}
/// Likewise; what is 65520 or more in magnitude becomes ∞.
inline Half to_half(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  const auto with_sign = [&](std::uint32_t h) { return Half{static_cast<std::uint16_t>(sign | h)}; };
  if (magnitude > 0x7f800000u) return with_sign(0x7e00u);
  if (magnitude >= 0x477ff000u) return with_sign(0x7c00u);  // 65520
  if (magnitude < 0x38800000u)                              // below 2⁻¹⁴: whole multiples of 2⁻²⁴
    return with_sign(static_cast<std::uint32_t>(std::nearbyint(std::bit_cast<float>(magnitude) * 0x1p24f)));
  const std::uint32_t rebiased = magnitude - (112u << 23);
  return with_sign((rebiased + 0xfffu + (rebiased >> 13 & 1u)) >> 13);
}

}  // namespace eigenformer
