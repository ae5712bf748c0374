#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "eigenformer/kernel/loss.hpp"
#include "support/guarded.hpp"
#include "support/oracle.hpp"
#include "support/tolerance.hpp"

using namespace eigenformer;
using namespace eigenformer::test;

namespace {

constexpr Id ignore = -100;

struct Result {
  double loss;
  std::vector<double> slope;
};

/// Loss and gradient of one row.
template <class T>
Result of_row(const std::vector<double>& logits, Id target, double smoothing = 0) {
  const auto width = static_cast<Index>(logits.size());
  const Guarded<T, 2> x(Shape{1, width}), dx(Shape{1, width});
  const Guarded<kernel::SoftmaxSum<T>, 1> totals(Shape{1});
  x.fill([next = logits.begin()]() mutable { return *next++; });
  Arena arena;
  const std::vector<Id> targets{target};
  const double loss = kernel::cross_entropy_forward<T>({}, arena, x, targets, ignore, smoothing, totals);
  kernel::cross_entropy_backward<T>({}, x, targets, ignore, smoothing, totals, 1, {dx, false});
  const auto values = dx.values();
  return {loss, {values.data(), values.data() + width}};
}

}  // namespace

template <class T>
struct CrossEntropyKernel : ::testing::Test {};
using Scalars = ::testing::Types<float, double>;
TYPED_TEST_SUITE(CrossEntropyKernel, Scalars);

TYPED_TEST(CrossEntropyKernel, ForwardAndBackward) {
  using T = TypeParam;
  for (const Index rows : {1, 3, 17})
    for (const Index width : sizes)
      for (const double smoothing : {0.0, 0.1}) {
        SCOPED_TRACE(to_string(Shape{rows, width}) + " smoothing " + std::to_string(smoothing));
        for_layouts([&](Layout layout) {
          for (const bool add : {false, true}) {
            const Guarded<T, 2> logits(Shape{rows, width}, layout), dlogits(Shape{rows, width}, layout);
            const Guarded<Id, 1> ids(Shape{rows}, layout);
            const Guarded<kernel::SoftmaxSum<T>, 1> totals(Shape{rows}, layout);
            logits.fill([numbers = Numbers(1)]() mutable { return 10 * numbers(); });
            Tensor<Id, 1> targets(Shape{rows});
            for (Index i = 0; i < rows; ++i)
              targets(i) = ids(i) = i % 3 == 1 ? ignore : static_cast<Id>((7 * i + width - 1) % width);
            auto want = oracle::cross_entropy(logits.values(), targets, ignore, smoothing);
            Arena arena;
            const double loss = kernel::cross_entropy_forward<T>({}, arena, logits, ids, ignore, smoothing, totals);
            EXPECT_NEAR(
                loss, want.loss,
                Tolerance<T>::softmax * static_cast<double>(std::numeric_limits<T>::epsilon()) * want.magnitude);

            constexpr double dloss = 0.25;
            const auto place = prepared(dlogits, add);
            for (Index i = 0; i < want.dlogits.values.size(); ++i) want.dlogits.values.data()[i] *= dloss;
            want.dlogits.magnitude = 10 * dloss;
            if (add) want.dlogits.add(dlogits.values());
            kernel::cross_entropy_backward<T>({}, logits, ids, ignore, smoothing, totals, dloss, place);
            expect_close(dlogits, want.dlogits, Tolerance<T>::softmax);
          }
        });
        if (this->HasFailure()) return;
      }
}

TYPED_TEST(CrossEntropyKernel, FarApartLogits) {
  const auto result = of_row<TypeParam>({-431, 279, 427}, 0);
  EXPECT_EQ(result.loss, 858.0);
  EXPECT_EQ(result.slope[0], -1);
  EXPECT_NEAR(result.slope[1], 0, 1e-60);
  EXPECT_EQ(result.slope[2], 1);
}

TYPED_TEST(CrossEntropyKernel, EqualLogits) {
  const auto result = of_row<TypeParam>({-300, -300, -300, -300}, 2);
  EXPECT_NEAR(result.loss, std::log(4.0), 1e-7 * 300);
  EXPECT_NEAR(result.loss, 1.3862944, 1e-6);
  EXPECT_EQ(result.slope, (std::vector<double>{0.25, 0.25, -0.75, 0.25}));
}

// By hand: p = (1/2, 1/4, 1/4), ε = 0.3 gives q = (0.8, 0.1, 0.1); −Σ q log p = 0.8 ln 2 + 0.2 ln 4 = 1.2 ln 2.
TYPED_TEST(CrossEntropyKernel, SmoothingMixesInAllClasses) {
  const auto result = of_row<TypeParam>({std::log(2.0), 0, 0}, 0, 0.3);
  EXPECT_NEAR(result.loss, 1.2 * std::log(2.0), 1e-6);
  EXPECT_NEAR(result.slope[0], 0.5 - 0.8, 1e-7);
  EXPECT_NEAR(result.slope[1], 0.25 - 0.1, 1e-7);
  EXPECT_NEAR(result.slope[2], 0.25 - 0.1, 1e-7);
}

TYPED_TEST(CrossEntropyKernel, NoValidTargetNoLoss) {
  using T = TypeParam;
  const Guarded<T, 2> logits(Shape{5, 7}, {}, 1), dlogits(Shape{5, 7});
  const Guarded<kernel::SoftmaxSum<T>, 1> totals(Shape{5});
  const std::vector<Id> targets(5, ignore);
  Arena arena;
  EXPECT_EQ(kernel::cross_entropy_forward<T>({}, arena, logits, targets, ignore, 0.1, totals), 0);
  kernel::cross_entropy_backward<T>({}, logits, targets, ignore, 0.1, totals, 1, {dlogits, false});
  for (Index i = 0; i < 5; ++i)
    for (Index j = 0; j < 7; ++j) EXPECT_EQ(dlogits(i, j), 0);
}

TYPED_TEST(CrossEntropyKernel, NoRows) {
  using T = TypeParam;
  const Guarded<T, 2> logits(Shape{0, 7}), dlogits(Shape{0, 7});
  const Guarded<kernel::SoftmaxSum<T>, 1> totals(Shape{0});
  Arena arena;
  EXPECT_EQ(kernel::cross_entropy_forward<T>({}, arena, logits, std::vector<Id>(), ignore, 0.1, totals), 0);
  kernel::cross_entropy_backward<T>({}, logits, std::vector<Id>(), ignore, 0.1, totals, 1, {dlogits, false});
}
