// A vector register of T: a thin face over Eigen's packets, so that one kernel serves SSE, AVX2, AVX-512, NEON and
// plain scalars.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <type_traits>
#include <utility>

#include "eigenformer/core/eigen.hpp"
#include "eigenformer/core/scalar.hpp"

#if defined(__AVX__)
#include <immintrin.h>  // Eigen does so only where it vectorises
#elif defined(__SSE2__)
#include <emmintrin.h>
#endif

// Forced inlining, of functions and (behind the parameter list) of lambdas: register tiles live and die by it.
#if defined(__GNUC__)
#define EIGENFORMER_INLINE inline __attribute__((always_inline))
#define EIGENFORMER_INLINE_LAMBDA __attribute__((always_inline))
#else
#define EIGENFORMER_INLINE inline
#define EIGENFORMER_INLINE_LAMBDA
#endif

// g++ warns of packet types as template arguments (their alignment is an attribute), of AVX-512 intrinsics that are
// macros if it does not optimise, and in version 12 of its own AVX-512 intrinsics (a deliberately undefined operand).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wignored-attributes"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

namespace eigenformer::inline EIGENFORMER_ABI::kernel {

template <Real T>
struct Vec {
  using Scalar = T;
  using Packet = typename Eigen::internal::packet_traits<T>::type;
  static constexpr Index lanes = Eigen::internal::unpacket_traits<Packet>::size;

  Packet packet;

  Vec() = default;
  EIGENFORMER_INLINE Vec(Packet p) : packet(p) {}
  EIGENFORMER_INLINE Vec(T everywhere) requires(!std::is_same_v<T, Packet>)
      : packet(Eigen::internal::pset1<Packet>(everywhere)) {}

  static EIGENFORMER_INLINE Vec load(const T* from) { return Eigen::internal::ploadu<Packet>(from); }
  EIGENFORMER_INLINE void store(T* to) const { Eigen::internal::pstoreu(to, packet); }

  /// The first `count` < lanes elements; the others are zero, and their memory is not touched.
  static EIGENFORMER_INLINE Vec load(const T* from, Index count) {
#ifdef __AVX512F__
    if constexpr (lanes == 16) return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << count) - 1), from);
#endif
    T buffer[static_cast<std::size_t>(lanes)] = {};
    std::memcpy(buffer, from, static_cast<std::size_t>(count) * sizeof(T));
    return load(buffer);
  }
  EIGENFORMER_INLINE void store(T* to, Index count) const {
#ifdef __AVX512F__
    if constexpr (lanes == 16) return _mm512_mask_storeu_ps(to, static_cast<__mmask16>((1u << count) - 1), packet);
#endif
    T buffer[static_cast<std::size_t>(lanes)];
    store(buffer);
    std::memcpy(to, buffer, static_cast<std::size_t>(count) * sizeof(T));
  }

  /// Keeps the compiler from folding the load into each use: one load, many uses.
  EIGENFORMER_INLINE void keep() {
#if defined(__GNUC__) && defined(__AVX512F__)
    asm("" : "+v"(packet));
#elif defined(__GNUC__) && defined(__SSE2__)
    asm("" : "+x"(packet));
#endif
  }

  friend EIGENFORMER_INLINE Vec operator+(Vec a, Vec b) { return Eigen::internal::padd(a.packet, b.packet); }
  friend EIGENFORMER_INLINE Vec operator-(Vec a, Vec b) { return Eigen::internal::psub(a.packet, b.packet); }
  friend EIGENFORMER_INLINE Vec operator*(Vec a, Vec b) { return Eigen::internal::pmul(a.packet, b.packet); }
  friend EIGENFORMER_INLINE Vec operator/(Vec a, Vec b) { return Eigen::internal::pdiv(a.packet, b.packet); }
};

/// a·b + c, in one rounding where the machine can.
template <class T>
EIGENFORMER_INLINE Vec<T> fma(Vec<T> a, Vec<T> b, Vec<T> c) {
#ifdef __FP_FAST_FMAF  // of single numbers, a compiler would contract a·b + c here and not there
  if constexpr (Vec<T>::lanes == 1) return std::fma(a.packet, b.packet, c.packet);
  else
#endif
    return Eigen::internal::pmadd(a.packet, b.packet, c.packet);
}
template <class T>
EIGENFORMER_INLINE Vec<T> maximum(Vec<T> a, Vec<T> b) {
  return Eigen::internal::pmax(a.packet, b.packet);
}
template <class T>
EIGENFORMER_INLINE Vec<T> minimum(Vec<T> a, Vec<T> b) {
  return Eigen::internal::pmin(a.packet, b.packet);
}
// What Eigen's comparisons give is a mask of packets alone: of single numbers it may be 1.0.

/// x where a < b, else 0.
template <class T>
EIGENFORMER_INLINE Vec<T> where_less(Vec<T> a, Vec<T> b, Vec<T> x) {
  if constexpr (Vec<T>::lanes == 1) return a.packet < b.packet ? x : Vec<T>(T{0});
#ifdef __AVX512F__
  else if constexpr (Vec<T>::lanes == 16)
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(a.packet, b.packet, _CMP_LT_OQ), x.packet);
#endif
  else return Eigen::internal::pand(Eigen::internal::pcmp_lt(a.packet, b.packet), x.packet);
}
/// x where a < b, else y.
template <class T>
EIGENFORMER_INLINE Vec<T> choose_less(Vec<T> a, Vec<T> b, Vec<T> x, Vec<T> y) {
  if constexpr (Vec<T>::lanes == 1) return a.packet < b.packet ? x : y;
#ifdef __AVX512F__
  else if constexpr (Vec<T>::lanes == 16)
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.packet, b.packet, _CMP_LT_OQ), y.packet, x.packet);
#endif
  else return Eigen::internal::pselect(Eigen::internal::pcmp_lt(a.packet, b.packet), x.packet, y.packet);
}
template <class T>
EIGENFORMER_INLINE Vec<T> absolute(Vec<T> a) {
  return Eigen::internal::pabs(a.packet);
}

namespace detail {

// The machine's own: Eigen has approximations, which at 0 and ∞ multiply 0 by ∞.
#ifdef __SSE2__
EIGENFORMER_INLINE __m128 root(__m128 x) { return _mm_sqrt_ps(x); }
EIGENFORMER_INLINE __m128d root(__m128d x) { return _mm_sqrt_pd(x); }
#endif
#ifdef __AVX__
EIGENFORMER_INLINE __m256 root(__m256 x) { return _mm256_sqrt_ps(x); }
EIGENFORMER_INLINE __m256d root(__m256d x) { return _mm256_sqrt_pd(x); }
#endif
#ifdef __AVX512F__
EIGENFORMER_INLINE __m512 root(__m512 x) { return _mm512_sqrt_ps(x); }
EIGENFORMER_INLINE __m512d root(__m512d x) { return _mm512_sqrt_pd(x); }
#endif
template <class Packet>
EIGENFORMER_INLINE Packet root(Packet x) {
  return Eigen::internal::psqrt(x);
}

}  // namespace detail

template <class T>
EIGENFORMER_INLINE Vec<T> square_root(Vec<T> a) {
  return detail::root(a.packet);
}
template <class T>
EIGENFORMER_INLINE T sum(Vec<T> a) {
  return Eigen::internal::predux(a.packet);
}
template <class T>
EIGENFORMER_INLINE T largest(Vec<T> a) {
  return Eigen::internal::predux_max(a.packet);
}

/// f(0), f(1), … f(Count − 1) with compile-time constants.
template <int Count, class F>
EIGENFORMER_INLINE void unroll(F&& f) {
  [&]<int... I>(std::integer_sequence<int, I...>) EIGENFORMER_INLINE_LAMBDA {
    (f(std::integral_constant<int, I>()), ...);
  }
  (std::make_integer_sequence<int, Count>());
}

/// Several vectors that go through the same functions side by side: a chain of dependent instructions leaves the
/// machine idle, and its window is too short to find the next chain.
template <class T>
struct VecPack {
  using Scalar = T;
#ifdef __AVX512F__
  static constexpr int count = 4;  // with their constants they fill the registers
#else
  static constexpr int count = 2;
#endif
  static constexpr Index lanes = count * Vec<T>::lanes;

  Vec<T> parts[static_cast<std::size_t>(count)];

  VecPack() = default;
  EIGENFORMER_INLINE VecPack(Vec<T> everywhere) {
    unroll<count>([&](auto i) EIGENFORMER_INLINE_LAMBDA { parts[i] = everywhere; });
  }
  EIGENFORMER_INLINE VecPack(T everywhere) : VecPack(Vec<T>(everywhere)) {}

  friend EIGENFORMER_INLINE VecPack operator+(const VecPack& a, const VecPack& b) {
    return each([](auto x, auto y) EIGENFORMER_INLINE_LAMBDA { return x + y; }, a, b);
  }
  friend EIGENFORMER_INLINE VecPack operator-(const VecPack& a, const VecPack& b) {
    return each([](auto x, auto y) EIGENFORMER_INLINE_LAMBDA { return x - y; }, a, b);
  }
  friend EIGENFORMER_INLINE VecPack operator*(const VecPack& a, const VecPack& b) {
    return each([](auto x, auto y) EIGENFORMER_INLINE_LAMBDA { return x * y; }, a, b);
  }
  friend EIGENFORMER_INLINE VecPack operator/(const VecPack& a, const VecPack& b) {
    return each([](auto x, auto y) EIGENFORMER_INLINE_LAMBDA { return x / y; }, a, b);
  }

  /// f of the vectors of each place.
  template <class F, class... Lots>
  static EIGENFORMER_INLINE VecPack each(F&& f, const Lots&... packs) {
    VecPack result;
    unroll<count>([&](auto i) EIGENFORMER_INLINE_LAMBDA { result.parts[i] = f(packs.parts[i]...); });
    return result;
  }
};

template <class T>
EIGENFORMER_INLINE VecPack<T> fma(const VecPack<T>& a, const VecPack<T>& b, const VecPack<T>& c) {
  return VecPack<T>::each([](auto x, auto y, auto z) EIGENFORMER_INLINE_LAMBDA { return fma(x, y, z); }, a, b, c);
}
template <class T>
EIGENFORMER_INLINE VecPack<T> maximum(const VecPack<T>& a, const VecPack<T>& b) {
  return VecPack<T>::each([](auto x, auto y) EIGENFORMER_INLINE_LAMBDA { return maximum(x, y); }, a, b);
}
template <class T>
EIGENFORMER_INLINE VecPack<T> minimum(const VecPack<T>& a, const VecPack<T>& b) {
  return VecPack<T>::each([](auto x, auto y) EIGENFORMER_INLINE_LAMBDA { return minimum(x, y); }, a, b);
}
template <class T>
EIGENFORMER_INLINE VecPack<T> where_less(const VecPack<T>& a, const VecPack<T>& b, const VecPack<T>& x) {
  return VecPack<T>::each([](auto p, auto q, auto r) EIGENFORMER_INLINE_LAMBDA { return where_less(p, q, r); }, a, b,
                          x);
}
template <class T>
EIGENFORMER_INLINE VecPack<T> choose_less(const VecPack<T>& a, const VecPack<T>& b, const VecPack<T>& x,
                                          const VecPack<T>& y) {
  return VecPack<T>::each(
      [](auto p, auto q, auto r, auto t) EIGENFORMER_INLINE_LAMBDA { return choose_less(p, q, r, t); }, a, b, x, y);
}
template <class T>
EIGENFORMER_INLINE VecPack<T> absolute(const VecPack<T>& a) {
  return VecPack<T>::each([](auto x) EIGENFORMER_INLINE_LAMBDA { return absolute(x); }, a);
}

template <class T>
EIGENFORMER_INLINE VecPack<T> square_root(const VecPack<T>& a) {
  return VecPack<T>::each([](auto x) EIGENFORMER_INLINE_LAMBDA { return square_root(x); }, a);
}

namespace detail {

/// f of every element, one by one: for what is not worth vectorising.
template <class T, class F>
EIGENFORMER_INLINE Vec<T> one_by_one(Vec<T> x, F&& f) {
  T values[static_cast<std::size_t>(Vec<T>::lanes)];
  x.store(values);
  for (T& value : values) value = f(value);
  return Vec<T>::load(values);
}
template <class T, class F>
EIGENFORMER_INLINE VecPack<T> one_by_one(const VecPack<T>& x, F&& f) {
  return VecPack<T>::each([&](auto part) { return one_by_one(part, f); }, x);
}

/// Whether V's functions are vectorised; else they go by way of the standard library: for checking, not for speed.
template <class V>
inline constexpr bool vectorized = std::is_same_v<typename V::Scalar, float> && (Vec<float>::lanes > 1);

// What follows is for vectorised functions. In it no number and no ∞ raises the exceptions invalid, overflow or
// division by zero: programs may have these trapped.

/// Adding this to |x| < 2²² rounds it to an integer, which is then in the low bits.
inline constexpr float integer_shift = 12582912;  // 1.5·2²³

#ifdef __AVX512F__
inline constexpr int quietly = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;

/// Where x ≥ least, or is NaN. The lanes that are masked out raise nothing.
template <class T>
EIGENFORMER_INLINE __mmask16 not_less(Vec<T> x, T least) {
  return _mm512_cmp_ps_mask(x.packet, Vec<T>(least).packet, _CMP_NLT_UQ);
}
#endif

/// The nearest integer to x, |x| < 2²²; in between, one of the two.
template <class T>
EIGENFORMER_INLINE Vec<T> nearest(Vec<T> x) {
#ifdef __AVX512F__
  return _mm512_roundscale_ps(x.packet, quietly);
#else
  return (x + Vec<T>(integer_shift)) - Vec<T>(integer_shift);
#endif
}

/// x, not less than `least` or not more than `most`, unless the functions below mind no ∞. NaN stays NaN.
template <class V, class T>
EIGENFORMER_INLINE V bounded_below(V x, [[maybe_unused]] T least) {
#ifdef __AVX512F__
  return x;
#else
  return maximum(x, V(least));
#endif
}
template <class V, class T>
EIGENFORMER_INLINE V bounded_above(V x, [[maybe_unused]] T most) {
#ifdef __AVX512F__
  return x;
#else
  return minimum(x, V(most));
#endif
}

/// a·b, which may be −∞ or ∞.
template <class T>
EIGENFORMER_INLINE Vec<T> product(Vec<T> a, Vec<T> b) {
#ifdef __AVX512F__
  return _mm512_mul_round_ps(a.packet, b.packet, quietly);
#else
  return a * b;
#endif
}

/// x − n·ln 2 (Cody and Waite 1980); any number where x < least.
template <class T>
EIGENFORMER_INLINE Vec<T> remainder(Vec<T> x, Vec<T> n, [[maybe_unused]] T least) {
  const Vec<T> high(-0.693359375F), low(2.12194440e-4F);
#ifdef __AVX512F__
  const __mmask16 counts = not_less(x, least);
  return _mm512_maskz_fmadd_ps(counts, n.packet, low.packet,
                               _mm512_maskz_fmadd_ps(counts, n.packet, high.packet, x.packet));
#else
  return fma(n, low, fma(n, high, x));
#endif
}

/// x − n for the nearest integer n; NaN for −∞.
template <class T>
EIGENFORMER_INLINE Vec<T> fraction(Vec<T> x, Vec<T> n) {
#ifdef __AVX512F__
  return _mm512_sub_round_ps(x.packet, n.packet, quietly);
#else
  return x - n;
#endif
}

/// p·2ⁿ for ½ < p < 2 and whole n ≥ −126, 0 where x < least, ∞ where x > most; NaN where x is NaN. If `most` is ∞, n ≤
/// 127.
template <class T>
EIGENFORMER_INLINE Vec<T> scaled(Vec<T> p, Vec<T> n, Vec<T> x, T least, [[maybe_unused]] T most) {
#ifdef __AVX512F__
  return _mm512_maskz_scalef_round_ps(not_less(x, least), p.packet, n.packet, quietly);
#else
  namespace e = Eigen::internal;
  using Packet = typename Vec<T>::Packet;
  using Integer = typename e::unpacket_traits<Packet>::integer_packet;
  constexpr T infinity = std::numeric_limits<T>::infinity();
  const auto exponent = [&](T bias) {
    return e::plogical_shift_left<23>(e::preinterpret<Integer>((n + Vec<T>(integer_shift + bias)).packet));
  };
  const Packet zero = e::pcmp_lt(x.packet, Vec<T>(least).packet);
  if (most == infinity) return e::pandnot((p * Vec<T>(e::preinterpret<Packet>(exponent(127)))).packet, zero);
  // 2¹²⁸ is no number, but added to the exponent of p it may give one.
  const Vec<T> value =
      e::pandnot(e::preinterpret<Packet>(e::padd<Integer>(e::preinterpret<Integer>(p.packet), exponent(0))), zero);
  const Vec<T> limited = choose_less(Vec<T>(most), x, Vec<T>(infinity), value);
  return e::pselect(e::pcmp_eq(x.packet, x.packet), limited.packet, x.packet);
#endif
}

/// x ≥ 0 with the sign of another.
template <class T>
EIGENFORMER_INLINE Vec<T> with_sign(Vec<T> x, Vec<T> of) {
  return Eigen::internal::por(x.packet, Eigen::internal::pand(of.packet, Vec<T>(-T{0}).packet));
}

template <class T>
EIGENFORMER_INLINE VecPack<T> nearest(const VecPack<T>& x) {
  return VecPack<T>::each([](auto part) EIGENFORMER_INLINE_LAMBDA { return nearest(part); }, x);
}
template <class T>
EIGENFORMER_INLINE VecPack<T> product(const VecPack<T>& a, const VecPack<T>& b) {
  return VecPack<T>::each([](auto x, auto y) EIGENFORMER_INLINE_LAMBDA { return product(x, y); }, a, b);
}
template <class T>
EIGENFORMER_INLINE VecPack<T> remainder(const VecPack<T>& x, const VecPack<T>& n, T least) {
  return VecPack<T>::each([=](auto y, auto m) EIGENFORMER_INLINE_LAMBDA { return remainder(y, m, least); }, x, n);
}
template <class T>
EIGENFORMER_INLINE VecPack<T> fraction(const VecPack<T>& x, const VecPack<T>& n) {
  return VecPack<T>::each([](auto part, auto m) EIGENFORMER_INLINE_LAMBDA { return fraction(part, m); }, x, n);
}
template <class T>
EIGENFORMER_INLINE VecPack<T> scaled(const VecPack<T>& p, const VecPack<T>& n, const VecPack<T>& x, T least, T most) {
  return VecPack<T>::each(
      [=](auto q, auto m, auto y) EIGENFORMER_INLINE_LAMBDA { return scaled(q, m, y, least, most); }, p, n, x);
}
template <class T>
EIGENFORMER_INLINE VecPack<T> with_sign(const VecPack<T>& x, const VecPack<T>& of) {
  return VecPack<T>::each([](auto y, auto z) EIGENFORMER_INLINE_LAMBDA { return with_sign(y, z); }, x, of);
}

/// Horner's rule, the highest power first.
template <class V>
EIGENFORMER_INLINE V polynomial(V x, std::initializer_list<float> coefficients) {
  const float* c = coefficients.begin();
  V sum(*c);
  while (++c != coefficients.end()) sum = fma(sum, x, V(*c));
  return sum;
}

/// 2ˣ for x ≤ 127 that is bounded_below().
template <class V>
EIGENFORMER_INLINE V exp2_of(V x) {
  // x = n + r with |r| ≤ ½; 2ʳ by a minimax polynomial (relative error 1.9e-9).
  const V n = nearest(x);
  const V power = polynomial(
      fraction(x, n), {1.5345812e-4F, 1.3399931e-3F, 9.6184890e-3F, 5.5503288e-2F, 2.4022647e-1F, 6.9314721e-1F, 1.0F});
  return scaled(power, n, x, -126.0F, std::numeric_limits<float>::infinity());
}

/// f of a number from `least` to `most`; what is less becomes 0 in float, as in vectors; what is more ∞, without an
/// exception.
template <class V, class T, class F>
EIGENFORMER_INLINE V limited(V x, T least, T most, F&& f) {
  return one_by_one(x, [&](T value) {
    if (value > most) return std::numeric_limits<T>::infinity();
    return std::is_same_v<T, float> && value < least ? T{0} : f(value);
  });
}

}  // namespace detail

// The functions below take a vector or a pack. None of them traps: see above.

/// 2ˣ. In float at most 1.3 ULP of error for x ≤ 127; exactly 0 for x < −126 where the result would be subnormal, and
/// so for −∞; NaN stays NaN.
template <class V>
EIGENFORMER_INLINE V exp2(V x) {
  using T = typename V::Scalar;
  if constexpr (detail::vectorized<V>) return detail::exp2_of(detail::bounded_below(x, -127.0F));
  else
    return detail::limited(x, T{-126}, (std::nextafter)(T{std::numeric_limits<T>::max_exponent}, T{0}),
                           [](T value) { return std::exp2(value); });
}

/// eˣ. In float at most 1.3 ULP of error; exactly 0 for x < −87.34 where the result would be subnormal, and so for −∞;
/// ∞ for x > 88.72; NaN stays NaN. In double subnormal results, too.
template <class V>
EIGENFORMER_INLINE V exp(V x) {
  using T = typename V::Scalar;
  constexpr float least = -87.33654F, most = 88.722835F;
  if constexpr (detail::vectorized<V>) {
    // x = n·ln 2 + r, eʳ by a minimax polynomial (relative error 1.9e-9).
    const V within = detail::bounded_below(minimum(x, V(88.8F)), least),
            n = detail::nearest(detail::product(within, V(1.44269504F)));
    const V power =
        detail::polynomial(detail::remainder(within, n, least),
                           {1.3836846e-3F, 8.3748158e-3F, 4.1668226e-2F, 1.6666420e-1F, 4.9999992e-1F, 1.0F, 1.0F});
    return detail::scaled(power, n, x, least, most);
  } else {
    return detail::limited(x, T{least}, std::is_same_v<T, float> ? T{most} : T(709.782712893384),
                           [](T value) { return std::exp(value); });
  }
}

/// eˣ for x ≤ 0, quicker than exp(): in float the relative error is at most 2e-7 + 2⁻²³·|x|. Exactly 0 for x < −87.34,
/// and so for −∞.
template <class V>
EIGENFORMER_INLINE V exp_of_negative(V x) {
  if constexpr (detail::vectorized<V>)
    return detail::exp2_of(detail::product(detail::bounded_below(x, -87.34F), V(1.44269504F)));
  else return exp(x);
}

/// 1 / (1 + e⁻ˣ). In float at most 2.5 ULP of error; 0 for x < −88.72, and so for −∞; NaN stays NaN.
template <class V>
EIGENFORMER_INLINE V sigmoid(V x) {
  using T = typename V::Scalar;
  return V(T{1}) / (V(T{1}) + exp(V(T{0}) - x));
}

/// σ(x) and its derivative σ·(1 − σ), as exact far from 0 as near.
template <class V>
struct Logistic {
  V value, derivative;
};
template <class V>
EIGENFORMER_INLINE Logistic<V> logistic(V x) {
  using T = typename V::Scalar;
  const V e = exp(V(T{0}) - absolute(x)), high = V(T{1}) / (V(T{1}) + e), low = e * high;
  return {choose_less(x, V(T{0}), low, high), low * high};
}

/// In float at most 3 ULP of error; NaN stays NaN.
template <class V>
EIGENFORMER_INLINE V tanh(V x) {
  using T = typename V::Scalar;
  if constexpr (detail::vectorized<V>) {
    // Near 0 an odd polynomial (relative error 4.8e-9 for |x| < 0.63), beyond it 1 − 2/(e²ˣ + 1), which is 1 from 10
    // on.
    const V t = minimum(absolute(x), V(10.0F)), square = t * t;
    const V small_value = fma(
        t * square,
        detail::polynomial(square, {-5.6668750e-3F, 2.0606088e-2F, -5.3729981e-2F, 1.3331331e-1F, -3.3333278e-1F}), t);
    const V large_value = V(1.0F) - V(2.0F) / (exp(t + t) + V(1.0F));
    return detail::with_sign(choose_less(t, V(0.625F), small_value, large_value), x);
  } else {
    return detail::one_by_one(x, [](T value) { return std::tanh(value); });
  }
}

/// The normal distribution at x: density φ(x) = e^(−x²/2)/√2π, and Φ(x), its integral from −∞ to x.
template <class V>
struct Normal {
  V density, integral;
};

/// In float the relative error of Φ is at most 4e-7 + 2⁻²⁴·x² and that of φ 2e-7 + 2⁻²⁴·x²; below 1.2e-38 both are 0.
template <class V>
EIGENFORMER_INLINE Normal<V> normal(V x) {
  using T = typename V::Scalar;
  if constexpr (detail::vectorized<V>) {
    // Φ(−t) = e^(−t²/2)·u·P(u) with u = 1/(1 + 0.3 t), as Abramowitz and Stegun 26.2.17, but of degree 9 (relative
    // error 8.8e-8).
    const V t = detail::bounded_above(absolute(x), 13.25F), u = V(1.0F) / fma(t, V(0.3F), V(1.0F));
    const V power = detail::exp2_of(detail::product(detail::product(t, t), V(-0.72134752F)));
    const V tail = power * u *
                   detail::polynomial(u, {4.4817344e-3F, 1.5426811e-2F, -1.1858739e-1F, 1.6587328e-1F, -2.8249583e-2F,
                                          1.1878106e-1F, 1.0215631e-1F, 1.2047395e-1F, 1.1964387e-1F});
    return {power * V(0.39894228F), choose_less(x, V(0.0F), tail, V(1.0F) - tail)};
  } else {
    const auto each = [&](auto&& f) {
      return detail::one_by_one(x, [&](T value) { return static_cast<T>(f(static_cast<double>(value))); });
    };
    return {each([](double at) {
              const double t = (std::min)((std::abs)(at), 40.0);  // beyond it, 0
              return std::exp(-t * t / 2) * 0.39894228040143267794;
            }),
            each([](double at) { return std::erfc(-at * 0.70710678118654752440) / 2; })};
  }
}

/// The error function. In float at most 2.5 ULP of error; NaN stays NaN.
template <class V>
EIGENFORMER_INLINE V erf(V x) {
  using T = typename V::Scalar;
  if constexpr (detail::vectorized<V>) {
    // Near 0 an odd polynomial (relative error 1.2e-9 for |x| < 1), beyond it 1 − 2Φ(−√2|x|), which is 1 from 4 on.
    const V t = minimum(absolute(x), V(4.0F)), square = t * t;
    const V small_value = t * detail::polynomial(square, {7.8537507e-5F, -8.0101624e-4F, 5.1883244e-3F, -2.6853810e-2F,
                                                          1.1283585e-1F, -3.7612626e-1F, 1.1283792F});
    const V tail = normal(t * V(-1.41421356F)).integral;
    return detail::with_sign(choose_less(t, V(1.0F), small_value, V(1.0F) - (tail + tail)), x);
  } else {
    return detail::one_by_one(x, [](T value) { return std::erf(value); });
  }
}

/// 16 unsigned 32-bit integers, in one, two or four registers or none.
struct Words {
  static constexpr int count = 16;
#if defined(__AVX512F__)
  __m512i packet;

  static Words all(std::uint32_t word) { return {_mm512_set1_epi32(static_cast<int>(word))}; }
  static Words load(const std::uint32_t* from) { return {_mm512_loadu_si512(from)}; }
  void store(std::uint32_t* to) const { _mm512_storeu_si512(to, packet); }
  friend Words operator^(Words a, Words b) { return {_mm512_xor_si512(a.packet, b.packet)}; }

  friend Words swap_halves(Words a) { return {_mm512_rol_epi32(a.packet, 16)}; }  // of every word
  /// `bits` where a ≥ limit, else 0.
  friend Words where_not_less(Words a, std::uint32_t limit, std::uint32_t bits) {
    return {_mm512_maskz_set1_epi32(_mm512_cmpge_epu32_mask(a.packet, all(limit).packet), static_cast<int>(bits))};
  }
  /// The lower and the upper half of every product with the factor.
  friend EIGENFORMER_INLINE void multiply_wide(Words a, std::uint32_t factor, Words& low, Words& high) {
    const __m512i by = _mm512_set1_epi32(static_cast<int>(factor));
    const __m512i even = _mm512_mul_epu32(a.packet, by), odd = _mm512_mul_epu32(_mm512_srli_epi64(a.packet, 32), by);
    low.packet = _mm512_mullo_epi32(a.packet, by);
    high.packet = _mm512_mask_blend_epi32(0xAAAA, _mm512_srli_epi64(even, 32), odd);
  }
#elif defined(__AVX2__)
  __m256i packets[2];

  static Words all(std::uint32_t word) {
    return {{_mm256_set1_epi32(static_cast<int>(word)), _mm256_set1_epi32(static_cast<int>(word))}};
  }
  static Words load(const std::uint32_t* from) {
    return {{_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)),
             _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + 8))}};
  }
  void store(std::uint32_t* to) const {
    for (int i = 0; i < 2; ++i) _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 8 * i), packets[i]);
  }
  friend Words operator^(Words a, Words b) {
    return {{_mm256_xor_si256(a.packets[0], b.packets[0]), _mm256_xor_si256(a.packets[1], b.packets[1])}};
  }
  friend Words swap_halves(Words a) {
    for (__m256i& packet : a.packets)
      packet = _mm256_or_si256(_mm256_slli_epi32(packet, 16), _mm256_srli_epi32(packet, 16));
    return a;
  }
  friend Words where_not_less(Words a, std::uint32_t limit, std::uint32_t bits) {
    for (__m256i& packet : a.packets)
      packet = _mm256_and_si256(
          _mm256_cmpeq_epi32(_mm256_max_epu32(packet, _mm256_set1_epi32(static_cast<int>(limit))), packet),
          _mm256_set1_epi32(static_cast<int>(bits)));
    return a;
  }
  friend EIGENFORMER_INLINE void multiply_wide(Words a, std::uint32_t factor, Words& low, Words& high) {
    const __m256i by = _mm256_set1_epi32(static_cast<int>(factor));
    for (int i = 0; i < 2; ++i) {
      const __m256i even = _mm256_mul_epu32(a.packets[i], by),
                    odd = _mm256_mul_epu32(_mm256_srli_epi64(a.packets[i], 32), by);
      low.packets[i] = _mm256_mullo_epi32(a.packets[i], by);
      high.packets[i] = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);
    }
  }
#else
  std::uint32_t words[count];

  static Words all(std::uint32_t word) {
    Words to;
    for (std::uint32_t& each : to.words) each = word;
    return to;
  }
  static Words load(const std::uint32_t* from) {
    Words to;
    std::memcpy(to.words, from, sizeof to.words);
    return to;
  }
  void store(std::uint32_t* to) const { std::memcpy(to, words, sizeof words); }
  friend Words operator^(Words a, Words b) {
    for (int i = 0; i < count; ++i) a.words[i] ^= b.words[i];
    return a;
  }
  friend Words swap_halves(Words a) {
    for (std::uint32_t& each : a.words) each = std::rotl(each, 16);
    return a;
  }
  friend Words where_not_less(Words a, std::uint32_t limit, std::uint32_t bits) {
    for (std::uint32_t& each : a.words) each = each < limit ? 0 : bits;
    return a;
  }
  friend void multiply_wide(Words a, std::uint32_t factor, Words& low, Words& high) {
    for (int i = 0; i < count; ++i) {
      const std::uint64_t product = std::uint64_t{factor} * a.words[i];
      low.words[i] = static_cast<std::uint32_t>(product);
      high.words[i] = static_cast<std::uint32_t>(product >> 32);
    }
  }
#endif
};

/// Asks for a cache line that will be written.
template <class T>
EIGENFORMER_INLINE void prefetch_to_write([[maybe_unused]] const T* line) {
#ifdef __GNUC__
  __builtin_prefetch(line, 1);
#endif
}

/// Asks for a cache line that will be read soon.
template <class T>
EIGENFORMER_INLINE void prefetch([[maybe_unused]] const T* line) {
#ifdef __GNUC__
  __builtin_prefetch(line);
#endif
}

/// Asks for a cache line that will be read later, into the second-level cache.
template <class T>
EIGENFORMER_INLINE void prefetch_far([[maybe_unused]] const T* line) {
#ifdef __GNUC__
  __builtin_prefetch(line, 0, 2);
#endif
}

/// Rows to columns of a square of lanes × lanes elements.
template <class T>
EIGENFORMER_INLINE void transpose(Vec<T>* square) {
  constexpr Index lanes = Vec<T>::lanes;
  if constexpr (lanes > 1) {
    Eigen::internal::PacketBlock<typename Vec<T>::Packet, static_cast<int>(lanes)> block;
    for (Index i = 0; i < lanes; ++i) block.packet[i] = square[i].packet;
    Eigen::internal::ptranspose(block);
    for (Index i = 0; i < lanes; ++i) square[i].packet = block.packet[i];
  }
}

/// The columns of a square of lanes × lanes elements whose rows are `stride` apart.
template <class T>
EIGENFORMER_INLINE void load_columns(const T* from, Index stride, Vec<T>* square) {
  constexpr Index lanes = Vec<T>::lanes;
#ifdef __AVX512F__
  // Quarters of four rows go into a register as they are loaded: that takes no turn on the one port that shuffles.
  if constexpr (lanes == 16) {
    unroll<4>([&](auto q) EIGENFORMER_INLINE_LAMBDA {
      __m512 rows[4];
      unroll<4>([&](auto j) EIGENFORMER_INLINE_LAMBDA {
        const T* const at = from + j * stride + 4 * q;
        const __m256 half =
            _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(at)), _mm_loadu_ps(at + 4 * stride), 1);
        const __m512 three = _mm512_insertf32x4(_mm512_castps256_ps512(half), _mm_loadu_ps(at + 8 * stride), 2);
        rows[j] = _mm512_insertf32x4(three, _mm_loadu_ps(at + 12 * stride), 3);
      });
      const __m512 low01 = _mm512_unpacklo_ps(rows[0], rows[1]), low23 = _mm512_unpacklo_ps(rows[2], rows[3]);
      const __m512 high01 = _mm512_unpackhi_ps(rows[0], rows[1]), high23 = _mm512_unpackhi_ps(rows[2], rows[3]);
      square[4 * q] = _mm512_shuffle_ps(low01, low23, 0x44);
      square[4 * q + 1] = _mm512_shuffle_ps(low01, low23, 0xee);
      square[4 * q + 2] = _mm512_shuffle_ps(high01, high23, 0x44);
      square[4 * q + 3] = _mm512_shuffle_ps(high01, high23, 0xee);
    });
    return;
  }
#endif
  for (Index i = 0; i < lanes; ++i) square[i] = Vec<T>::load(from + i * stride);
  transpose(square);
}

/// f(i, lanes) for every full vector of [0, count), then f(i, rest) if something is left; f takes (Index, count type).
template <class T, class F>
EIGENFORMER_INLINE void for_vectors(Index count, F&& f) {
  constexpr Index lanes = Vec<T>::lanes;
  Index i = 0;
  for (; i + lanes <= count; i += lanes) f(i, std::integral_constant<Index, lanes>());
  if (i < count) f(i, count - i);
}

/// The same, but f gets packs as long as they fit: f(i, lanes of a pack).
template <class T, class F>
EIGENFORMER_INLINE void for_vec_packs(Index count, F&& f) {
  Index i = 0;
  for (; i + VecPack<T>::lanes <= count; i += VecPack<T>::lanes)
    f(i, std::integral_constant<Index, VecPack<T>::lanes>());
  for_vectors<T>(count - i, [&](Index j, auto n) EIGENFORMER_INLINE_LAMBDA { f(i + j, n); });
}

/// Loads and stores of a vector or a pack that for_vectors() announced as full or partial.
template <class T, Index Lanes>
EIGENFORMER_INLINE auto load(const T* from, std::integral_constant<Index, Lanes>) {
  if constexpr (Lanes == Vec<T>::lanes) {
    return Vec<T>::load(from);
  } else {
    VecPack<T> pack;
    unroll<VecPack<T>::count>(
        [&](auto i) EIGENFORMER_INLINE_LAMBDA { pack.parts[i] = Vec<T>::load(from + i * Vec<T>::lanes); });
    return pack;
  }
}
template <class T>
EIGENFORMER_INLINE Vec<T> load(const T* from, Index count) {
  return Vec<T>::load(from, count);
}
/// first, first + 1, …, for as many.
template <class T, Index Lanes>
EIGENFORMER_INLINE auto counting(T first, std::integral_constant<Index, Lanes>) {
  const Vec<T> some(Eigen::internal::plset<typename Vec<T>::Packet>(first));
  if constexpr (Lanes == Vec<T>::lanes) {
    return some;
  } else {
    VecPack<T> pack;
    unroll<VecPack<T>::count>(
        [&](auto i) EIGENFORMER_INLINE_LAMBDA { pack.parts[i] = some + Vec<T>(static_cast<T>(i * Vec<T>::lanes)); });
    return pack;
  }
}
template <class T>
EIGENFORMER_INLINE Vec<T> counting(T first, Index) {
  return counting(first, std::integral_constant<Index, Vec<T>::lanes>());
}
/// The same with `beyond` in the place of what is not there.
template <class T, Index Lanes>
EIGENFORMER_INLINE auto load(const T* from, std::integral_constant<Index, Lanes> lanes, T) {
  return load(from, lanes);
}
template <class T>
EIGENFORMER_INLINE Vec<T> load(const T* from, Index count, T beyond) {
#ifdef __AVX512F__
  if constexpr (Vec<T>::lanes == 16)
    return _mm512_mask_loadu_ps(Vec<T>(beyond).packet, static_cast<__mmask16>((1u << count) - 1), from);
#endif
  T buffer[static_cast<std::size_t>(Vec<T>::lanes)];
  for (Index i = 0; i < Vec<T>::lanes; ++i) buffer[i] = i < count ? from[i] : beyond;
  return Vec<T>::load(buffer);
}
template <class T, Index Lanes>
EIGENFORMER_INLINE void store(T* to, Vec<T> x, std::integral_constant<Index, Lanes>) {
  x.store(to);
}
template <class T>
EIGENFORMER_INLINE void store(T* to, const VecPack<T>& x, std::integral_constant<Index, VecPack<T>::lanes>) {
  unroll<VecPack<T>::count>([&](auto i) EIGENFORMER_INLINE_LAMBDA { x.parts[i].store(to + i * Vec<T>::lanes); });
}
template <class T>
EIGENFORMER_INLINE void store(T* to, Vec<T> x, Index count) {
  x.store(to, count);
}

/// The sums of `Sums` functions over [0, count): f(i, n) gives their values for a full or partial vector, zero beyond
/// `count` (so a partial load must be told what to put there). In an order that count alone decides.
template <class T, int Sums, class F>
EIGENFORMER_INLINE std::array<T, static_cast<std::size_t>(Sums)> sum_vectors(Index count, F&& f) {
  constexpr int chains = 4;
  constexpr Index lanes = Vec<T>::lanes, stride = chains * lanes;
  using Values = std::array<Vec<T>, static_cast<std::size_t>(Sums)>;
  Values totals[chains];
  for (Values& total : totals) total.fill(Vec<T>(T{0}));
  const auto add = [&](Values& total, const Values& values) EIGENFORMER_INLINE_LAMBDA {
    unroll<Sums>([&](auto s) EIGENFORMER_INLINE_LAMBDA { total[s] = total[s] + values[s]; });
  };
  Index i = 0;
  for (; i + stride <= count; i += stride)
    unroll<chains>([&](auto c) EIGENFORMER_INLINE_LAMBDA {
      add(totals[c], f(i + c * lanes, std::integral_constant<Index, lanes>()));
    });
  for_vectors<T>(count - i, [&](Index j, auto n) EIGENFORMER_INLINE_LAMBDA { add(totals[0], f(i + j, n)); });
  std::array<T, static_cast<std::size_t>(Sums)> sums;
  unroll<Sums>([&](auto s) EIGENFORMER_INLINE_LAMBDA {
    sums[s] = sum((totals[0][s] + totals[1][s]) + (totals[2][s] + totals[3][s]));
  });
  return sums;
}
template <class T, class F>
EIGENFORMER_INLINE T sum_vectors(Index count, F&& f) {
  return sum_vectors<T, 1>(count, [&](Index i, auto n) EIGENFORMER_INLINE_LAMBDA { return std::array{f(i, n)}; })[0];
}

}  // namespace eigenformer::kernel

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
