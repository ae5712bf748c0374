// Denormals: numbers too small for full precision, which some machines compute with many times slower. Flushing them to
// zero is the caller's choice, for a C++ scope.
#pragma once

#include <cstdint>

#include "eigenformer/core/language.hpp"

#if defined(__SSE__) || defined(_M_X64)
#include <xmmintrin.h>
#define EIGENFORMER_HAS_MXCSR 1
#endif

namespace eigenformer::inline EIGENFORMER_ABI {

namespace detail {

/// The floating-point mode of a thread; constant where we do not know how to change it.
inline std::uint64_t float_mode() {
#if defined(EIGENFORMER_HAS_MXCSR)
  return _mm_getcsr();
#elif defined(__aarch64__) && defined(__GNUC__)
  std::uint64_t mode;
  asm volatile("mrs %0, fpcr" : "=r"(mode));
  return mode;
#else
  return 0;
#endif
}

inline void set_float_mode([[maybe_unused]] std::uint64_t mode) {
#if defined(EIGENFORMER_HAS_MXCSR)
  _mm_setcsr(static_cast<unsigned>(mode));
#elif defined(__aarch64__) && defined(__GNUC__)
  asm volatile("msr fpcr, %0" : : "r"(mode));
#endif
}

/// Results and operands are flushed: bits FTZ and DAZ, or FZ.
#if defined(EIGENFORMER_HAS_MXCSR)
inline constexpr std::uint64_t flushing = 0x8040;
#else
inline constexpr std::uint64_t flushing = std::uint64_t{1} << 24;
#endif

}  // namespace detail

/// While it lives, denormal operands and results count as 0 on this thread, and on the workers of a parallel_for that
/// this thread calls; then the thread's mode is what it was. Opt-in: nothing here ever does this by itself.
class FlushDenormals {
 public:
  FlushDenormals() : before_(detail::float_mode()) { detail::set_float_mode(before_ | detail::flushing); }
  ~FlushDenormals() { detail::set_float_mode(before_); }
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
  std::uint64_t before_;
};

}  // namespace eigenformer
