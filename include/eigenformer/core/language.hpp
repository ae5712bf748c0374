// What the compiler must be asked for, said in one line: every header of ours begins with this one, directly or not.
#pragma once

#include "eigenformer/version.hpp"

#if defined(_MSVC_LANG) ? _MSVC_LANG < 202002L : __cplusplus < 202002L
#error "eigenformer needs C++20: compile with -std=c++20 or later"
#include "eigenformer needs C++20"  // ends the compilation, where a thousand errors would follow
#endif

#if !defined(__cpp_exceptions) && !defined(_CPPUNWIND)
#error "eigenformer throws eigenformer::Error: compile without -fno-exceptions"
#include "eigenformer needs exceptions"
#endif

// Masks are −inf and skipped steps are found by isfinite: a compiler that assumes neither exists breaks both silently.
#if defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__
#error \
    "eigenformer: -ffast-math / -ffinite-math-only removes the infinities that masking needs; add -fno-finite-math-only"
#include "eigenformer needs infinities"
#endif

// With x87's wider registers, an element would depend on what the compiler keeps in them: on batch, threads and caches.
#if defined(__FLT_EVAL_METHOD__) && __FLT_EVAL_METHOD__ != 0 && __FLT_EVAL_METHOD__ != 16
#error "eigenformer: x87 arithmetic gives other bits from call to call; on 32-bit x86 compile with -msse2 -mfpmath=sse"
#include "eigenformer needs arithmetic of float in float"
#endif
