// The memory that the other tests of this folder rely on.
#include "support/guarded.hpp"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

using namespace eigenformer;
using namespace eigenformer::test;

TEST(Guarded, BeginsAsNaN) {
  const Guarded<float, 2> x(Shape{3, 5}, {2, Edge::end});
  for (Index i = 0; i < 3; ++i)
    for (Index j = 0; j < 5; ++j) EXPECT_TRUE(std::isnan(x(i, j)));
}

TEST(Guarded, HoldsElementsInOrder) {
  const Guarded<float, 3> x(Shape{2, 3, 4}, {5, Edge::end});
  float next = 0;
  x.fill([&] { return next++; });
  EXPECT_EQ(x(1, 2, 3), 23);
  EXPECT_EQ(x.view().stride(1), 9);
  EXPECT_EQ(x.view().stride(0), 32);
  EXPECT_EQ(x.values()(1, 0, 2), 14);
}

TEST(Guarded, TouchesTheEdge) {
  const Guarded<float, 1> begin(Shape{5}, {0, Edge::begin}), end(Shape{5}, {0, Edge::end});
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(begin.view().data()) % 4096, 0u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(end.view().data() + 5) % 4096, 0u);
}

TEST(GuardedDeathTest, CrashesBeyondTheEdge) {
  const Guarded<float, 1> begin(Shape{5}, {0, Edge::begin}), end(Shape{5}, {0, Edge::end}), none(Shape{0});
  volatile float* const before = begin.view().data() - 1;
  volatile float* const after = end.view().data() + 5;
  volatile float* const empty = none.view().data();
  EXPECT_DEATH(*before = 1, "");
  EXPECT_DEATH(*after = 1, "");
  EXPECT_DEATH(static_cast<void>(*after), "");
  EXPECT_DEATH(static_cast<void>(*empty), "");
}

TEST(Guarded, NoticesWritesBetweenRows) {
  const auto write = [](Index offset) {
    const Guarded<float, 2> x(Shape{3, 5}, {2, Edge::end});
    x.view().data()[offset] = 0;
  };
  write(4);
  EXPECT_NONFATAL_FAILURE(write(5), "between the rows");
  EXPECT_NONFATAL_FAILURE(write(-1), "between the rows");
}
