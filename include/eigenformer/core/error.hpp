// Errors: one exception type, thrown at the boundaries (constructors, op entry, files) before anything is changed.
#pragma once

#include <charconv>
#include <cstddef>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

#include "eigenformer/core/language.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

/// What every failed check throws; what() reads "[place] sentence with all the numbers involved".
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

namespace detail {

template <class Part>
std::string error_part(const Part& part) {
  if constexpr (std::is_same_v<Part, bool>) {
    return part ? "true" : "false";
  } else if constexpr (std::is_floating_point_v<Part>) {
    char digits[64];  // the fewest that tell it from its neighbours
    return {digits, std::to_chars(digits, digits + sizeof digits, part).ptr};
  } else if constexpr (std::is_arithmetic_v<Part>) {
    return std::to_string(part);
  } else if constexpr (std::is_convertible_v<const Part&, std::string_view>) {
    return std::string(std::string_view(part));
  } else {
    return to_string(part);  // found by argument-dependent lookup, e.g. for shapes
  }
}

/// A part of a message, not yet written: every check in a program shares the code that writes it.
struct ErrorPart {
  const void* part;
  void (*append)(std::string& message, const void* part);

  template <class Part>
  explicit ErrorPart(const Part& from)
      : part(&from),
        append([](std::string& message, const void* of) { message += error_part(*static_cast<const Part*>(of)); }) {}
  template <std::size_t Size>
  explicit ErrorPart(const char (&text)[Size])
      : part(text), append([](std::string& message, const void* of) { message += static_cast<const char*>(of); }) {}
};

[[noreturn]] inline void throw_error(std::string_view place, std::initializer_list<ErrorPart> parts) {
  std::string message = "[";
  message.append(place).append("] ");
  for (const ErrorPart& part : parts) part.append(message, part.part);
  throw Error(message);
}

}  // namespace detail

/// Throws Error("[place] " + parts…); parts are strings, numbers and shapes.
template <class... Parts>
[[noreturn]] void fail(std::string_view place, const Parts&... parts) {
  detail::throw_error(place, {detail::ErrorPart(parts)...});
}

/// Fails unless `holds`.
template <class... Parts>
void ensure(bool holds, std::string_view place, const Parts&... parts) {
  if (!holds) [[unlikely]]
    fail(place, parts...);
}

}  // namespace eigenformer
