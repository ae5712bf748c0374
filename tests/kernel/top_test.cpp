// The largest of a row against sorting it.
#include "eigenformer/kernel/top.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "support/guarded.hpp"
#include "support/tolerance.hpp"

namespace eigenformer::test {
namespace {

template <class T>
struct TopKernel : ::testing::Test {};
using TopScalars = ::testing::Types<float, double>;
TYPED_TEST_SUITE(TopKernel, TopScalars);

/// All that are not −∞, by value, then by id.
template <class T>
std::vector<Id> sorted_ids(const T* x, Index width) {
  std::vector<Id> ids;
  for (Index j = 0; j < width; ++j)
    if (x[j] > -std::numeric_limits<T>::infinity()) ids.push_back(static_cast<Id>(j));
  std::stable_sort(ids.begin(), ids.end(), [&](Id a, Id b) { return x[a] > x[b]; });
  return ids;
}

/// Rows of several kinds: all different, many equals, ascending, descending, mostly −∞, all equal.
std::vector<std::function<double(Index)>> row_kinds() {
  return {[numbers = Numbers(3)](Index) mutable { return numbers(); },
          [numbers = Numbers(4)](Index) mutable { return std::floor(3 * numbers()); },
          [](Index j) { return static_cast<double>(j); },
          [](Index j) { return -static_cast<double>(j); },
          [numbers = Numbers(5)](Index) mutable { return numbers() < 0.8 ? -HUGE_VAL : numbers(); },
          [](Index) { return 1.5; }};
}

TYPED_TEST(TopKernel, IsTheBeginOfTheSortedRow) {
  using T = TypeParam;
  kernel::TopRoom room;  // of one row after another
  for (const Index width : {1, 3, 15, 16, 17, 63, 64, 65, 127, 130, 1000, 5000})
    for (const Index count : {1, 2, 5, 16, 17, 40, 130, 1000})
      for (auto& kind : row_kinds())
        for (const Edge edge : {Edge::begin, Edge::end}) {
          const Guarded<T, 1> x(Shape{width}, {0, edge});
          Index next = 0;
          x.fill([&] { return kind(next++); });
          const Index wanted = (std::min)(count, width);
          const auto best = kernel::top(x.view().data(), width, count, room);
          std::vector<Id> want = sorted_ids(x.view().data(), width);
          if (static_cast<Index>(want.size()) > wanted) want.resize(static_cast<std::size_t>(wanted));
          ASSERT_EQ(std::vector<Id>(best.begin(), best.end()), want) << width << " " << count;
        }
}

TYPED_TEST(TopKernel, ExcludesAllAfterAToken) {
  using T = TypeParam;
  for (const Index width : {1, 3, 15, 17, 64, 130})
    for (auto& kind : row_kinds())
      for (const Edge edge : {Edge::begin, Edge::end}) {
        const Guarded<T, 1> x(Shape{width}, {0, edge}), y(Shape{width}, {0, edge});
        Index next = 0;
        x.fill([&] { return kind(next++); });
        const std::vector<Id> order = sorted_ids(x.view().data(), width);
        for (std::size_t kept = 1; kept <= order.size(); ++kept) {
          std::copy_n(x.view().data(), width, y.view().data());
          kernel::exclude_after(y.view().data(), width, order[kept - 1]);
          for (std::size_t i = 0; i < order.size(); ++i)
            ASSERT_EQ(y(order[i]), i < kept ? x(order[i]) : -std::numeric_limits<T>::infinity())
                << width << " " << kept << " " << i;
        }
      }
}

TYPED_TEST(TopKernel, FindsWhatIsNotBelowInfinity) {
  using T = TypeParam;
  constexpr T infinity = std::numeric_limits<T>::infinity();
  for (const Index width : {1, 3, 15, 17, 64, 130})
    for (Index bad = 0; bad < width; ++bad) {
      const Guarded<T, 1> x(Shape{width});
      x.fill([] { return -HUGE_VAL; });
      EXPECT_TRUE(kernel::bounded_above(x.view().data(), width));
      x(bad) = std::numeric_limits<T>::max();
      EXPECT_TRUE(kernel::bounded_above(x.view().data(), width));
      x(bad) = infinity;
      EXPECT_FALSE(kernel::bounded_above(x.view().data(), width));
      x(bad) = std::numeric_limits<T>::quiet_NaN();
      EXPECT_FALSE(kernel::bounded_above(x.view().data(), width));
    }
  const std::vector<T> wide((std::size_t{1} << 20) + 17, T{0});  // more than are counted at a time
  EXPECT_TRUE(kernel::bounded_above(wide.data(), static_cast<Index>(wide.size())));
}

}  // namespace
}  // namespace eigenformer::test
