// Denormals are numbers, unless the caller says otherwise for a while.
#include "eigenformer/core/denormals.hpp"

#include <gtest/gtest.h>

#include <atomic>

#include "eigenformer/core/threads.hpp"

using namespace eigenformer;

namespace {

/// 2⁻¹³⁰ · 2, computed when the program runs.
float doubled_denormal() {
  volatile float small = 0x1p-130f, two = 2;
  return small * two;
}

}  // namespace

TEST(Denormals, AreNumbersByDefault) { EXPECT_EQ(doubled_denormal(), 0x1p-129f); }

TEST(Denormals, AreFlushedWithinTheScopeOnly) {
  {
    const FlushDenormals outer;
    EXPECT_EQ(doubled_denormal(), 0);
    {
      const FlushDenormals inner;
      EXPECT_EQ(doubled_denormal(), 0);
    }
    EXPECT_EQ(doubled_denormal(), 0);
  }
  EXPECT_EQ(doubled_denormal(), 0x1p-129f);
}

TEST(Denormals, WorkersDoAsTheirCallerAndForget) {
  const Threads threads(3);
  const auto flushed = [&] {
    std::atomic<int> count = 0;
    threads.parallel_for(200, 1, [&](Index, Index) { count += doubled_denormal() == 0; });
    return count.load();
  };
  EXPECT_EQ(flushed(), 0);
  {
    const FlushDenormals here;
    EXPECT_EQ(flushed(), 200);
  }
  EXPECT_EQ(flushed(), 0);
}
