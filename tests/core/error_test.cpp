#include "eigenformer/core/error.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <type_traits>

#include "eigenformer/core/shape.hpp"
#include "support/error.hpp"

using namespace eigenformer;
using test::error_of;

static_assert(std::is_base_of_v<std::runtime_error, Error>);

TEST(Error, NamesPlaceAndNumbers) {
  EXPECT_EQ(error_of([] { fail("attention", 6, " heads do not divide model width ", 512); }),
            "[attention] 6 heads do not divide model width 512");
}

TEST(Error, ReadsShapesStringsAndFractions) {
  EXPECT_EQ(error_of([] { fail("x", Shape{2, 3}, " ", std::string("name"), " ", true); }), "[x] (2, 3) name true");
  EXPECT_EQ(error_of([] { fail("x", 0.1, " ", 1.0, " ", -0.5f, " ", 2500.0); }), "[x] 0.1 1 -0.5 2500");
  EXPECT_EQ(error_of([] { fail("x", 1e-9, " ", 1e300); }), "[x] 1e-09 1e+300")
      << "small and large numbers stay what they are";
}

TEST(Error, RequireThrowsOnlyWhenItFails) {
  EXPECT_NO_THROW(ensure(true, "x", "never"));
  EXPECT_EQ(error_of([] { ensure(false, "x", "size ", -1); }), "[x] size -1");
}
