// Floating-point exceptions that programs may have trapped.
#pragma once

#include <cfenv>
#include <string>

namespace eigenformer::test {

inline constexpr int trapped = FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW;

/// Which of them f() raises on this thread.
std::string raised(auto&& f) {
  std::feclearexcept(FE_ALL_EXCEPT);
  f();
  const int flags = std::fetestexcept(trapped);
  return std::string(flags & FE_INVALID ? "invalid " : "") + (flags & FE_DIVBYZERO ? "division by zero " : "") +
         (flags & FE_OVERFLOW ? "overflow " : "");
}

}  // namespace eigenformer::test
