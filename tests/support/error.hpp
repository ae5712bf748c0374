// The text of an Error.
#pragma once

#include <string>

#include "eigenformer/core/error.hpp"

namespace eigenformer::test {

/// What f() throws; empty if nothing. Anything but an Error passes through.
template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace eigenformer::test
