// Tables of settings and of values that they must not have.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "eigenformer/core/settings.hpp"
#include "support/error.hpp"

namespace eigenformer::test {

/// What no setting of a kind may be.
struct Bad {
  static constexpr Index lowest = (std::numeric_limits<Index>::min)(), most = largest_index;
  static constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();

  /// At least one, and as an axis; or 0 for none.
  static std::vector<Index> count() {
    return most > largest_extent ? std::vector{lowest, Index{-1}, Index{0}, most}
                                 : std::vector{lowest, Index{-1}, Index{0}};
  }
  static std::vector<Index> count_or_none() {
    return most > largest_extent ? std::vector{lowest, Index{-1}, most} : std::vector{lowest, Index{-1}};
  }
  static std::vector<Index> layers() { return {lowest, -1, largest_extent, most}; }
  static std::vector<Index> distance() { return {lowest, -1}; }
  static std::vector<double> probability() { return {-inf, -1, -1e-9, 1, 2, inf, nan}; }
  static std::vector<double> size() { return {-inf, -1, -1e-300, 1e30, 1e300, inf, nan}; }
  static std::vector<double> factor() { return {-inf, -1, 0, 1e-300, 1e30, 1e300, inf, nan}; }
};

/// make(config) works, and is refused when `set` gives this field one of these values: "[place] field value is invalid:
/// must be in …".
template <class Config, class Value, class Set, class Make>
void expect_refused(const std::string& place, const std::string& field, const Config& good,
                    const std::vector<Value>& bad, Set set, Make make) {
  EXPECT_NO_THROW(make(good)) << place;
  for (const Value value : bad) {
    Config config = good;
    set(config, value);
    const std::string text = error_of([&] { make(config); }), begin = "[" + place + "] " + field + " " +
                                                                      eigenformer::detail::error_part(value) +
                                                                      " is invalid: must be in ";
    EXPECT_EQ(text.substr(0, begin.size()), begin);
  }
}

}  // namespace eigenformer::test
