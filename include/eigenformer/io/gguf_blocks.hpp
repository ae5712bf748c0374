// Numbers as GGUF files hold them: blocks of integers of a few bits with a scale, or a scale and a least value; the K
// types have scales for every 16 or 32, which are integers themselves (https://github.com/ggml-org/ggml, ggml-common.h
// and ggml-quants.c). A value is scale · code − least. The product is exact in float: there is one rounding, and no
// compiler can change it.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

#include "eigenformer/core/scalar.hpp"
#include "eigenformer/io/safetensors_header.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

/// One of ggml's element types.
struct GgufType {
  std::string_view name;                                                   ///< as ggml spells it: "Q4_K"
  std::uint32_t id;                                                        ///< in files
  Index block;                                                             ///< elements of a block,
  Index bytes;                                                             ///< which has so many bytes
  void (*decode)(const std::uint8_t* bytes, Index blocks, float* values);  ///< null: there is no decoder
};

namespace detail {

// Within a block: little-endian fields, then codes. Each decoder writes one block.
using Bytes = const std::uint8_t*;

inline std::uint32_t two_bytes(Bytes p) { return static_cast<std::uint32_t>(p[0] | p[1] << 8); }
inline std::uint32_t four_bytes(Bytes p) { return two_bytes(p) | two_bytes(p + 2) << 16; }
inline float half_at(Bytes p) { return widen(Half{static_cast<std::uint16_t>(two_bytes(p))}); }
inline int signed_byte(std::uint8_t byte) { return byte < 128 ? byte : byte - 256; }
inline float times(float scale, int code) { return scale * static_cast<float>(code); }

/// f(place, code) for `count` bytes of two 4-bit codes: the low ones come first, then the high ones.
template <class F>
void each_nibble(Bytes codes, int count, F&& f) {
  for (int i = 0; i < count; ++i) {
    f(i, codes[i] & 15);
    f(i + count, codes[i] >> 4);
  }
}

inline void decode_f32(Bytes p, float* y) { *y = std::bit_cast<float>(four_bytes(p)); }
inline void decode_f16(Bytes p, float* y) { *y = half_at(p); }
inline void decode_bf16(Bytes p, float* y) { *y = widen(BrainFloat{static_cast<std::uint16_t>(two_bytes(p))}); }

inline void decode_q8_0(Bytes p, float* y) {
  const float scale = half_at(p);
  for (int i = 0; i < 32; ++i) y[i] = times(scale, signed_byte(p[2 + i]));
}
inline void decode_q4_0(Bytes p, float* y) {
  const float scale = half_at(p);
  each_nibble(p + 2, 16, [&](int i, int code) { y[i] = times(scale, code - 8); });
}
inline void decode_q4_1(Bytes p, float* y) {
  const float scale = half_at(p), least = half_at(p + 2);
  each_nibble(p + 4, 16, [&](int i, int code) { y[i] = times(scale, code) + least; });
}
/// The fifth bits of all 32 codes are one integer.
inline int fifth_bit(std::uint32_t bits, int i) { return static_cast<int>(bits >> i & 1) << 4; }
inline void decode_q5_0(Bytes p, float* y) {
  const float scale = half_at(p);
  const std::uint32_t high = four_bytes(p + 2);
  each_nibble(p + 6, 16, [&](int i, int code) { y[i] = times(scale, (code | fifth_bit(high, i)) - 16); });
}
inline void decode_q5_1(Bytes p, float* y) {
  const float scale = half_at(p), least = half_at(p + 2);
  const std::uint32_t high = four_bytes(p + 4);
  each_nibble(p + 8, 16, [&](int i, int code) { y[i] = times(scale, code | fifth_bit(high, i)) + least; });
}

// The K types have 256 elements. Planes of 2 bits lie 128 elements at a time: byte i of 32 holds those of the elements
// i, i + 32, i + 64 and i + 96.

/// Where the codes of 16 elements begin in such a plane, and how far they are shifted.
inline Bytes codes_of(Bytes plane, int group) { return plane + group / 8 * 32 + group % 2 * 16; }
inline int shift_of(int group) { return group % 8 / 2 * 2; }

inline void decode_q2_k(Bytes p, float* y) {  // 16 bytes of scale and least value, 64 of codes, two halves
  const float scale = half_at(p + 80), least = half_at(p + 82);
  for (int group = 0; group < 16; ++group, y += 16) {
    const Bytes codes = codes_of(p + 16, group);
    const float by = times(scale, p[group] & 15), less = times(least, p[group] >> 4);
    for (int i = 0; i < 16; ++i) y[i] = times(by, codes[i] >> shift_of(group) & 3) - less;
  }
}
inline void decode_q3_k(Bytes p, float* y) {  // 32 bytes of third bits, 64 of codes, 12 of 6-bit scales, a half
  const Bytes scales = p + 96;
  const float scale = half_at(p + 108);
  for (int group = 0; group < 16; ++group, y += 16) {
    const Bytes codes = codes_of(p + 32, group), thirds = p + group % 2 * 16;
    const int low = scales[group % 8] >> group / 8 * 4 & 15, high = scales[8 + group % 4] >> group / 4 * 2 & 3;
    const float by = times(scale, (low | high << 4) - 32);
    for (int i = 0; i < 16; ++i)
      y[i] = times(by, ((codes[i] >> shift_of(group) & 3) | (thirds[i] >> group / 2 & 1) << 2) - 4);
  }
}

/// Of Q4_K and Q5_K: 6-bit scales and least values of 8 groups of 32 in 12 bytes. The first four of each are whole, the
/// others have 4 bits behind them, and 2 above them.
struct ScaleAndLeast {
  int scale, least;
};
inline ScaleAndLeast scale_and_least(Bytes packed, int group) {
  if (group < 4) return {packed[group] & 63, packed[group + 4] & 63};
  return {(packed[group + 4] & 15) | packed[group - 4] >> 6 << 4, packed[group + 4] >> 4 | packed[group] >> 6 << 4};
}
/// Groups follow each other in pairs: 32 bytes hold the codes of two. fifth(element of the group, group) is added.
template <class F>
void decode_groups(Bytes p, Bytes codes, F&& fifth, float* y) {
  const float scale = half_at(p), least = half_at(p + 2);
  for (int group = 0; group < 8; ++group) {
    const auto [factor, offset] = scale_and_least(p + 4, group);
    const float by = times(scale, factor), less = times(least, offset);
    for (int i = 0; i < 32; ++i) {
      const int code = codes[group / 2 * 32 + i] >> group % 2 * 4 & 15;
      y[32 * group + i] = times(by, code | fifth(i, group)) - less;
    }
  }
}
inline void decode_q4_k(Bytes p, float* y) {
  decode_groups(
      p, p + 16, [](int, int) { return 0; }, y);
}
inline void decode_q5_k(Bytes p, float* y) {
  decode_groups(
      p, p + 48, [&](int i, int group) { return (p[16 + i] >> group & 1) << 4; }, y);
}
inline void decode_q6_k(Bytes p, float* y) {  // 128 bytes of low bits, 64 of high ones, 16 of scales, a half
  const float scale = half_at(p + 208);
  for (int group = 0; group < 16; ++group, y += 16) {
    const Bytes low = p + group / 8 * 64 + group % 4 * 16, high = codes_of(p + 128, group);
    const int low_shift = group % 8 / 4 * 4;
    const float by = times(scale, signed_byte(p[192 + group]));
    for (int i = 0; i < 16; ++i)
      y[i] = times(by, ((low[i] >> low_shift & 15) | (high[i] >> shift_of(group) & 3) << 4) - 32);
  }
}

/// What the codes of the IQ4 types stand for: steps that grow with their distance from 0.
inline constexpr std::array<int, 16> nonlinear_codes{-127, -104, -83, -65, -49, -35, -22, -10,
                                                     1,    13,   25,  38,  53,  69,  89,  113};
inline void decode_nonlinear(Bytes codes, float scale, float* y) {
  each_nibble(codes, 16,
              [&](int i, int code) { y[i] = times(scale, nonlinear_codes[static_cast<std::size_t>(code)]); });
}
inline void decode_iq4_nl(Bytes p, float* y) { decode_nonlinear(p + 2, half_at(p), y); }
inline void decode_iq4_xs(Bytes p, float* y) {  // a half, 8 times 2 high and then 4 low bits of scales, codes
  const float scale = half_at(p);
  for (int group = 0; group < 8; ++group) {
    const int low = p[4 + group / 2] >> group % 2 * 4 & 15, high = static_cast<int>(two_bytes(p + 2) >> 2 * group & 3);
    decode_nonlinear(p + 8 + 16 * group, times(scale, (low | high << 4) - 32), y + 32 * group);
  }
}

/// Twice the values of E2M1: a sign, 0, ½, 1, 1½, 2, 3, 4, 6.
inline constexpr std::array<int, 16> twice_e2m1{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
/// Half of E8M0's power of two, 2^(code − 127): the two smallest are subnormal.
inline float half_e8m0(std::uint8_t code) {
  return std::bit_cast<float>(code < 2 ? 0x00200000u << code : static_cast<std::uint32_t>(code - 1) << 23);
}
inline void decode_mxfp4(Bytes p, float* y) {
  const float scale = half_e8m0(p[0]);
  each_nibble(p + 1, 16, [&](int i, int code) { y[i] = times(scale, twice_e2m1[static_cast<std::size_t>(code)]); });
}

template <void (*one)(Bytes, float*), Index block, Index bytes>
void decode_blocks(Bytes p, Index blocks, float* values) {
  for (Index i = 0; i < blocks; ++i) one(p + i * bytes, values + i * block);
}
template <void (*one)(Bytes, float*), Index block, Index bytes>
constexpr GgufType decoded(std::string_view name, std::uint32_t id) {
  return {name, id, block, bytes, decode_blocks<one, block, bytes>};
}
constexpr GgufType not_decoded(std::string_view name, std::uint32_t id, Index block, Index bytes) {
  return {name, id, block, bytes, nullptr};
}

}  // namespace detail

/// All that ggml has; ids that are missing were given up. Those without a decoder have at least a size.
inline constexpr GgufType gguf_types[] = {detail::decoded<detail::decode_f32, 1, 4>("F32", 0),
                                          detail::decoded<detail::decode_f16, 1, 2>("F16", 1),
                                          detail::decoded<detail::decode_q4_0, 32, 18>("Q4_0", 2),
                                          detail::decoded<detail::decode_q4_1, 32, 20>("Q4_1", 3),
                                          detail::decoded<detail::decode_q5_0, 32, 22>("Q5_0", 6),
                                          detail::decoded<detail::decode_q5_1, 32, 24>("Q5_1", 7),
                                          detail::decoded<detail::decode_q8_0, 32, 34>("Q8_0", 8),
                                          detail::not_decoded("Q8_1", 9, 32, 36),
                                          detail::decoded<detail::decode_q2_k, 256, 84>("Q2_K", 10),
                                          detail::decoded<detail::decode_q3_k, 256, 110>("Q3_K", 11),
                                          detail::decoded<detail::decode_q4_k, 256, 144>("Q4_K", 12),
                                          detail::decoded<detail::decode_q5_k, 256, 176>("Q5_K", 13),
                                          detail::decoded<detail::decode_q6_k, 256, 210>("Q6_K", 14),
                                          detail::not_decoded("Q8_K", 15, 256, 292),
                                          detail::not_decoded("IQ2_XXS", 16, 256, 66),
                                          detail::not_decoded("IQ2_XS", 17, 256, 74),
                                          detail::not_decoded("IQ3_XXS", 18, 256, 98),
                                          detail::not_decoded("IQ1_S", 19, 256, 50),
                                          detail::decoded<detail::decode_iq4_nl, 32, 18>("IQ4_NL", 20),
                                          detail::not_decoded("IQ3_S", 21, 256, 110),
                                          detail::not_decoded("IQ2_S", 22, 256, 82),
                                          detail::decoded<detail::decode_iq4_xs, 256, 136>("IQ4_XS", 23),
                                          detail::not_decoded("I8", 24, 1, 1),
                                          detail::not_decoded("I16", 25, 1, 2),
                                          detail::not_decoded("I32", 26, 1, 4),
                                          detail::not_decoded("I64", 27, 1, 8),
                                          detail::not_decoded("F64", 28, 1, 8),
                                          detail::not_decoded("IQ1_M", 29, 256, 56),
                                          detail::decoded<detail::decode_bf16, 1, 2>("BF16", 30),
                                          detail::not_decoded("TQ1_0", 34, 256, 54),
                                          detail::not_decoded("TQ2_0", 35, 256, 66),
                                          detail::decoded<detail::decode_mxfp4, 32, 17>("MXFP4", 39),
                                          detail::not_decoded("NVFP4", 40, 64, 36),
                                          detail::not_decoded("Q1_0", 41, 128, 18),
                                          detail::not_decoded("Q2_0", 42, 64, 18)};

/// Null if there is none.
inline const GgufType* find_gguf_type(std::uint32_t id) {
  const auto* const found =
      std::find_if(std::begin(gguf_types), std::end(gguf_types), [&](const GgufType& type) { return type.id == id; });
  return found == std::end(gguf_types) ? nullptr : found;
}
inline const GgufType* find_gguf_type(std::string_view name) {
  const auto* const found = std::find_if(std::begin(gguf_types), std::end(gguf_types),
                                         [&](const GgufType& type) { return type.name == name; });
  return found == std::end(gguf_types) ? nullptr : found;
}

}  // namespace eigenformer
