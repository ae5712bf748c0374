// Loading reads into place: whatever the types, it asks for no memory of the size of a tensor.
#include <gtest/gtest.h>

#include <string>

#include "eigenformer/io/checkpoint.hpp"
#include "support/files.hpp"

#define EIGENFORMER_COUNT_ALLOCATIONS
#include "support/allocations.hpp"

using namespace eigenformer;

namespace {

template <class T>
struct Table {
  Tensor<T, 2> values{Shape{1000, 1000}};
  static void visit(auto&& f, auto&... m) { f(Leaf{"values"}, m.values...); }
};

template <class From, class To>
void expect_small_allocations() {
  const test::TemporaryFolder folder;
  Table<From> stored;
  Table<To> loaded;
  stored.values(999, 999) = 1;
  save(folder / "x", stored);
  test::largest_allocation = 0;
  load(folder / "x", loaded, {.aliases = {{"values", {"other"}}}});
  EXPECT_LT(test::largest_allocation, 200'000u);  // of 4 or 8 million
  EXPECT_EQ(loaded.values(999, 999), To{1});
}

}  // namespace

TEST(LoadAllocations, NoneOfTheSizeOfATensor) {
  expect_small_allocations<float, float>();
  expect_small_allocations<double, float>();
  expect_small_allocations<float, double>();
}
