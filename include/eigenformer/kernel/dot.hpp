// Dot products in lanes of 32 bits: a word holds two bf16 numbers or four 8-bit integers, and a lane of the sums gains
// the products of its word with one that all lanes share. What instructions do that is known here alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "eigenformer/core/eigen.hpp"
#include "eigenformer/core/half.hpp"
#include "eigenformer/core/scalar.hpp"
#include "eigenformer/kernel/simd.hpp"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wignored-attributes"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

namespace eigenformer::inline EIGENFORMER_ABI::kernel {

/// As many words as a vector of floats has lanes. This is the one without instructions of its own.
template <Index Lanes>
struct LaneWords {
  std::uint32_t word[static_cast<std::size_t>(Lanes)];

  static LaneWords load(const std::uint32_t* from) {
    LaneWords words;
    std::memcpy(words.word, from, sizeof words.word);
    return words;
  }
  void store(std::uint32_t* to) const { std::memcpy(to, word, sizeof word); }
  static LaneWords all(std::uint32_t word) {
    return each([=](Index) { return word; });
  }
  template <class F>
  static LaneWords each(F&& f) {
    LaneWords words;
    for (Index i = 0; i < Lanes; ++i) words.word[i] = f(i);
    return words;
  }

  LaneWords low_nibbles() const {
    return each([&](Index i) { return word[i] & 0x0f0f0f0fu; });
  }
  LaneWords high_nibbles() const {
    return each([&](Index i) { return word[i] >> 4 & 0x0f0f0f0fu; });
  }
  /// As signed integers.
  Vec<float> to_float() const {
    float values[static_cast<std::size_t>(Lanes)];
    for (Index i = 0; i < Lanes; ++i) values[i] = static_cast<float>(static_cast<std::int32_t>(word[i]));
    return Vec<float>::load(values);
  }
  /// The number of bf16 in the lower or the upper half.
  Vec<float> low_brain_float() const {
    return bits(each([&](Index i) { return word[i] << 16; }));
  }
  Vec<float> high_brain_float() const {
    return bits(each([&](Index i) { return word[i] & 0xffff0000u; }));
  }
  static Vec<float> bits(const LaneWords& words) {
    float values[static_cast<std::size_t>(Lanes)];
    std::memcpy(values, words.word, sizeof values);
    return Vec<float>::load(values);
  }

  /// sums + Σ of the four products of unsigned bytes of `right` with signed ones of `left`. Where bytes of `right` up
  /// to 15 take fewer instructions, add_small_products() is there for them.
  static LaneWords add_products(const LaneWords& sums, const LaneWords& right, const LaneWords& left) {
    return each([&](Index i) {
      std::int32_t sum = 0;
      for (int byte = 0; byte < 32; byte += 8)
        sum +=
            static_cast<std::int32_t>(right.word[i] >> byte & 0xffu) * static_cast<std::int8_t>(left.word[i] >> byte);
      return sums.word[i] + static_cast<std::uint32_t>(sum);
    });
  }
};

// Where no instruction multiplies bytes, pairs of 16 bits are: even bytes, then odd ones.
#if defined(EIGEN_VECTORIZE_AVX512) && defined(__AVX512BW__)
template <>
struct LaneWords<16> {
  __m512i packet;

  static EIGENFORMER_INLINE LaneWords load(const std::uint32_t* from) { return {_mm512_loadu_si512(from)}; }
  EIGENFORMER_INLINE void store(std::uint32_t* to) const { _mm512_storeu_si512(to, packet); }
  static EIGENFORMER_INLINE LaneWords all(std::uint32_t word) { return {_mm512_set1_epi32(static_cast<int>(word))}; }
  EIGENFORMER_INLINE LaneWords low_nibbles() const { return {_mm512_and_si512(packet, all(0x0f0f0f0fu).packet)}; }
  EIGENFORMER_INLINE LaneWords high_nibbles() const {
    return {_mm512_and_si512(_mm512_srli_epi32(packet, 4), all(0x0f0f0f0fu).packet)};
  }
  EIGENFORMER_INLINE Vec<float> to_float() const { return _mm512_cvtepi32_ps(packet); }
  EIGENFORMER_INLINE Vec<float> low_brain_float() const { return _mm512_castsi512_ps(_mm512_slli_epi32(packet, 16)); }
  EIGENFORMER_INLINE Vec<float> high_brain_float() const {
    return _mm512_castsi512_ps(_mm512_and_si512(packet, all(0xffff0000u).packet));
  }
  static EIGENFORMER_INLINE LaneWords add_products(LaneWords sums, LaneWords right, LaneWords left) {
#ifdef __AVX512VNNI__
#ifdef __GNUC__  // g++ 12 does not keep the sums of the intrinsic in registers
    asm("vpdpbusd %2, %1, %0" : "+v"(sums.packet) : "v"(right.packet), "v"(left.packet));
    return sums;
#else
    return {_mm512_dpbusd_epi32(sums.packet, right.packet, left.packet)};
#endif
#else
    const __m512i bytes = all(0x00ff00ffu).packet;
    const __m512i even = _mm512_madd_epi16(_mm512_and_si512(right.packet, bytes),
                                           _mm512_srai_epi16(_mm512_slli_epi16(left.packet, 8), 8)),
                  odd = _mm512_madd_epi16(_mm512_srli_epi16(right.packet, 8), _mm512_srai_epi16(left.packet, 8));
    return {_mm512_add_epi32(sums.packet, _mm512_add_epi32(even, odd))};
#endif
  }
};
#elif defined(EIGEN_VECTORIZE_AVX2) && !defined(EIGEN_VECTORIZE_AVX512)
template <>
struct LaneWords<8> {
  __m256i packet;

  static EIGENFORMER_INLINE LaneWords load(const std::uint32_t* from) {
    return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))};
  }
  EIGENFORMER_INLINE void store(std::uint32_t* to) const {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), packet);
  }
  static EIGENFORMER_INLINE LaneWords all(std::uint32_t word) { return {_mm256_set1_epi32(static_cast<int>(word))}; }
  EIGENFORMER_INLINE LaneWords low_nibbles() const { return {_mm256_and_si256(packet, all(0x0f0f0f0fu).packet)}; }
  EIGENFORMER_INLINE LaneWords high_nibbles() const {
    return {_mm256_and_si256(_mm256_srli_epi32(packet, 4), all(0x0f0f0f0fu).packet)};
  }
  EIGENFORMER_INLINE Vec<float> to_float() const { return _mm256_cvtepi32_ps(packet); }
  EIGENFORMER_INLINE Vec<float> low_brain_float() const { return _mm256_castsi256_ps(_mm256_slli_epi32(packet, 16)); }
  EIGENFORMER_INLINE Vec<float> high_brain_float() const {
    return _mm256_castsi256_ps(_mm256_and_si256(packet, all(0xffff0000u).packet));
  }
  static EIGENFORMER_INLINE LaneWords add_products(LaneWords sums, LaneWords right, LaneWords left) {
#ifdef __AVXVNNI__
#ifdef __GNUC__
    asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sums.packet) : "x"(right.packet), "x"(left.packet));
    return sums;
#else
    return {_mm256_dpbusd_avx_epi32(sums.packet, right.packet, left.packet)};
#endif
#else
    const __m256i bytes = all(0x00ff00ffu).packet;
    const __m256i even = _mm256_madd_epi16(_mm256_and_si256(right.packet, bytes),
                                           _mm256_srai_epi16(_mm256_slli_epi16(left.packet, 8), 8)),
                  odd = _mm256_madd_epi16(_mm256_srli_epi16(right.packet, 8), _mm256_srai_epi16(left.packet, 8));
    return {_mm256_add_epi32(sums.packet, _mm256_add_epi32(even, odd))};
#endif
  }
#ifndef __AVXVNNI__
  static EIGENFORMER_INLINE LaneWords add_small_products(LaneWords sums, LaneWords right, LaneWords left) {
    const __m256i pairs = _mm256_maddubs_epi16(right.packet, left.packet);
    return {_mm256_add_epi32(sums.packet, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))};
  }
#endif
};
#elif defined(EIGEN_VECTORIZE_SSE2) && !defined(EIGEN_VECTORIZE_AVX)
template <>
struct LaneWords<4> {
  __m128i packet;

  static EIGENFORMER_INLINE LaneWords load(const std::uint32_t* from) {
    return {_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))};
  }
  EIGENFORMER_INLINE void store(std::uint32_t* to) const { _mm_storeu_si128(reinterpret_cast<__m128i*>(to), packet); }
  static EIGENFORMER_INLINE LaneWords all(std::uint32_t word) { return {_mm_set1_epi32(static_cast<int>(word))}; }
  EIGENFORMER_INLINE LaneWords low_nibbles() const { return {_mm_and_si128(packet, all(0x0f0f0f0fu).packet)}; }
  EIGENFORMER_INLINE LaneWords high_nibbles() const {
    return {_mm_and_si128(_mm_srli_epi32(packet, 4), all(0x0f0f0f0fu).packet)};
  }
  EIGENFORMER_INLINE Vec<float> to_float() const { return _mm_cvtepi32_ps(packet); }
  EIGENFORMER_INLINE Vec<float> low_brain_float() const { return _mm_castsi128_ps(_mm_slli_epi32(packet, 16)); }
  EIGENFORMER_INLINE Vec<float> high_brain_float() const {
    return _mm_castsi128_ps(_mm_and_si128(packet, all(0xffff0000u).packet));
  }
  static EIGENFORMER_INLINE LaneWords add_products(LaneWords sums, LaneWords right, LaneWords left) {
    const __m128i even = _mm_madd_epi16(_mm_and_si128(right.packet, all(0x00ff00ffu).packet),
                                        _mm_srai_epi16(_mm_slli_epi16(left.packet, 8), 8)),
                  odd = _mm_madd_epi16(_mm_srli_epi16(right.packet, 8), _mm_srai_epi16(left.packet, 8));
    return {_mm_add_epi32(sums.packet, _mm_add_epi32(even, odd))};
  }
#ifdef __SSSE3__
  static EIGENFORMER_INLINE LaneWords add_small_products(LaneWords sums, LaneWords right, LaneWords left) {
    const __m128i pairs = _mm_maddubs_epi16(right.packet, left.packet);
    return {_mm_add_epi32(sums.packet, _mm_madd_epi16(pairs, _mm_set1_epi16(1)))};
  }
#endif
};
#elif defined(EIGEN_VECTORIZE_NEON) && defined(__ARM_FEATURE_DOTPROD)
template <>
struct LaneWords<4> {
  uint32x4_t packet;

  static EIGENFORMER_INLINE LaneWords load(const std::uint32_t* from) { return {vld1q_u32(from)}; }
  EIGENFORMER_INLINE void store(std::uint32_t* to) const { vst1q_u32(to, packet); }
  static EIGENFORMER_INLINE LaneWords all(std::uint32_t word) { return {vdupq_n_u32(word)}; }
  EIGENFORMER_INLINE LaneWords low_nibbles() const { return {vandq_u32(packet, vdupq_n_u32(0x0f0f0f0fu))}; }
  EIGENFORMER_INLINE LaneWords high_nibbles() const {
    return {vandq_u32(vshrq_n_u32(packet, 4), vdupq_n_u32(0x0f0f0f0fu))};
  }
  EIGENFORMER_INLINE Vec<float> to_float() const { return vcvtq_f32_s32(vreinterpretq_s32_u32(packet)); }
  EIGENFORMER_INLINE Vec<float> low_brain_float() const { return vreinterpretq_f32_u32(vshlq_n_u32(packet, 16)); }
  EIGENFORMER_INLINE Vec<float> high_brain_float() const {
    return vreinterpretq_f32_u32(vandq_u32(packet, vdupq_n_u32(0xffff0000u)));
  }
  /// u·s = (u − 128)·s + 128·s, since the instruction takes signed bytes alone.
  static EIGENFORMER_INLINE LaneWords add_products(LaneWords sums, LaneWords right, LaneWords left) {
    const int8x16_t signed_left = vreinterpretq_s8_u32(left.packet);
    const int32x4_t low =
        vdotq_s32(vreinterpretq_s32_u32(sums.packet),
                  vreinterpretq_s8_u32(veorq_u32(right.packet, vdupq_n_u32(0x80808080u))), signed_left);
    const int32x4_t ones = vdotq_s32(vdupq_n_s32(0), vdupq_n_s8(1), signed_left);
    return {vreinterpretq_u32_s32(vaddq_s32(low, vshlq_n_s32(ones, 7)))};
  }
};
#endif

template <class Words>
inline constexpr bool has_small_products = requires(Words w) {
  Words::add_small_products(w, w, w);
};

/// As many halves as a vector of floats has lanes.
EIGENFORMER_INLINE Vec<float> widen_halves(const Half* from) {
  constexpr Index lanes = Vec<float>::lanes;
#if defined(__AVX512F__)
  if constexpr (lanes == 16) return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  else
#elif defined(__F16C__) && defined(__AVX__)
  if constexpr (lanes == 8) return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  else
#endif
  {
    float values[static_cast<std::size_t>(lanes)];
    for (Index i = 0; i < lanes; ++i) values[i] = widen(from[i]);
    return Vec<float>::load(values);
  }
}

/// As many narrower numbers as a vector of floats has lanes: none is rounded.
EIGENFORMER_INLINE Vec<float> widened(const BrainFloat* from) {
#if defined(EIGEN_VECTORIZE_AVX512)
  return _mm512_castsi512_ps(
      _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))), 16));
#elif defined(EIGEN_VECTORIZE_AVX2)
  return _mm256_castsi256_ps(
      _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))), 16));
#elif defined(EIGEN_VECTORIZE_SSE2) && !defined(EIGEN_VECTORIZE_AVX)
  return _mm_castsi128_ps(
      _mm_unpacklo_epi16(_mm_setzero_si128(), _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))));
#elif defined(EIGEN_VECTORIZE_NEON)
  return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(reinterpret_cast<const std::uint16_t*>(from)), 16));
#else
  float values[static_cast<std::size_t>(Vec<float>::lanes)];
  for (Index i = 0; i < Vec<float>::lanes; ++i) values[i] = widen(from[i]);
  return Vec<float>::load(values);
#endif
}
EIGENFORMER_INLINE Vec<float> widened(const std::int8_t* from) {
#if defined(EIGEN_VECTORIZE_AVX512)
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
#elif defined(EIGEN_VECTORIZE_AVX2)
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))));
#elif defined(EIGEN_VECTORIZE_SSE2) && !defined(EIGEN_VECTORIZE_AVX)
  int four = 0;
  std::memcpy(&four, from, sizeof four);
  const __m128i bytes = _mm_cvtsi32_si128(four), pairs = _mm_unpacklo_epi8(bytes, bytes);
  return _mm_cvtepi32_ps(_mm_srai_epi32(_mm_unpacklo_epi16(pairs, pairs), 24));
#else
  float values[static_cast<std::size_t>(Vec<float>::lanes)];
  for (Index i = 0; i < Vec<float>::lanes; ++i) values[i] = static_cast<float>(from[i]);
  return Vec<float>::load(values);
#endif
}

// Intel's machines that have products of f16 too take four times as long for one of bf16 as for an fma.
#if defined(__AVX512BF16__) && defined(EIGEN_VECTORIZE_AVX512) && !defined(__AVX512FP16__) && defined(__GNUC__)
inline constexpr bool has_brain_float_dot = true;
#else
inline constexpr bool has_brain_float_dot = false;
#endif

/// The nearest numbers of bf16, as floats; NaN stays NaN.
EIGENFORMER_INLINE Vec<float> round_to_brain_float(Vec<float> x) {
#ifdef EIGEN_VECTORIZE_AVX512
  if constexpr (Vec<float>::lanes == 16) {
    const __m512i bits = _mm512_castps_si512(x.packet),
                  odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded = _mm512_and_si512(_mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff))),
                                             _mm512_set1_epi32(-0x10000));
    return _mm512_mask_mov_ps(_mm512_castsi512_ps(rounded), _mm512_cmp_ps_mask(x.packet, x.packet, _CMP_UNORD_Q),
                              x.packet);
  }
#endif
  return detail::one_by_one(x, [](float value) { return widen(to_brain_float(value)); });
}

/// Numbers of bf16, two a word, from as many floats.
inline void to_brain_floats(const float* x, Index count, std::uint16_t* to) {
  Index i = 0;
#if defined(__AVX512BF16__) && defined(EIGEN_VECTORIZE_AVX512)
  for (; i + 16 <= count; i += 16) {
    const __m256bh numbers = _mm512_cvtneps_pbh(_mm512_loadu_ps(x + i));
    std::memcpy(to + i, &numbers, sizeof numbers);
  }
#endif
  for (; i < count; ++i) to[i] = to_brain_float(x[i]).bits;
}

/// sums + the two products of bf16 numbers of each word, that of the upper ones first, each as a fused multiply-add.
/// The instruction may take subnormal numbers for 0.
EIGENFORMER_INLINE Vec<float> add_brain_float_products(Vec<float> sums, LaneWords<Vec<float>::lanes> right,
                                                       LaneWords<Vec<float>::lanes> left) {
#if defined(__AVX512BF16__) && defined(EIGEN_VECTORIZE_AVX512) && !defined(__AVX512FP16__) && defined(__GNUC__)
  if constexpr (Vec<float>::lanes == 16) {
    asm("vdpbf16ps %2, %1, %0" : "+v"(sums.packet) : "v"(right.packet), "v"(left.packet));
    return sums;
  }
#endif
  return fma(right.low_brain_float(), left.low_brain_float(),
             fma(right.high_brain_float(), left.high_brain_float(), sums));
}

}  // namespace eigenformer::kernel

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
