// The text of an Error.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "eigenformer/core/error.hpp"

namespace eigenformer::test {

/// The message of the Error that f throws; another exception, or none, fails the test.
template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "no Error";
  return {};
}

}  // namespace eigenformer::test
