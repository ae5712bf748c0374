#include "eigenformer/kernel/embedding.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "support/guarded.hpp"
#include "support/oracle.hpp"
#include "support/tolerance.hpp"

using namespace eigenformer;
using namespace eigenformer::test;

template <class T>
struct EmbeddingKernel : ::testing::Test {};
using Scalars = ::testing::Types<float, double>;
TYPED_TEST_SUITE(EmbeddingKernel, Scalars);

TYPED_TEST(EmbeddingKernel, LooksUpAndScattersBack) {
  using T = TypeParam;
  for_sizes([](Index rows, Index width, Index vocabulary) {
    for_layouts([&](Layout layout) {
      for (const bool add : {false, true}) {
        constexpr T scale = 0.75;
        const Guarded<Id, 1> ids(Shape{rows}, layout);
        const Guarded<T, 2> table(Shape{vocabulary, width}, layout, 1), y(Shape{rows, width}, layout),
            dy(Shape{rows, width}, layout, 2), dtable(Shape{vocabulary, width}, layout);
        for (Index i = 0; i < rows; ++i)
          ids(i) = static_cast<Id>((i * i + vocabulary - 1) % vocabulary);  // repeats, and both ends
        kernel::embedding_forward<T>({}, ids, kernel::Operand<T>::transposed(table), scale, y);
        for (Index i = 0; i < rows; ++i)
          for (Index j = 0; j < width; ++j) ASSERT_EQ(y(i, j), table(ids(i), j) * scale);

        const auto place = prepared(dtable, add);
        oracle::Expected<2> want(Shape{vocabulary, width}), terms(want.values.shape());
        for (Index i = 0; i < rows; ++i)
          for (Index j = 0; j < width; ++j) {
            const double term = 0.75 * static_cast<double>(dy(i, j));
            want.values(ids(i), j) += term;
            terms.values(ids(i), j) += std::abs(term);
          }
        terms.measure();
        want.magnitude = terms.magnitude;
        if (add) want.add(dtable.values());
        kernel::embedding_backward<T>({}, ids, dy, scale, place);
        expect_close(dtable, want, Tolerance<T>::elementwise);
      }
    });
  });
}

TYPED_TEST(EmbeddingKernel, EmptyAxes) {
  using T = TypeParam;
  const Guarded<T, 2> table(Shape{4, 5}, {}, 1), none(Shape{0, 5}), dtable(Shape{4, 5}), narrow(Shape{4, 0}),
      y(Shape{2, 0});
  kernel::embedding_forward<T>({}, std::vector<Id>(), kernel::Operand<T>::transposed(table), T{1}, none);
  kernel::embedding_backward<T>({}, std::vector<Id>(), none, T{1}, {dtable, false});
  for (Index i = 0; i < 20; ++i) EXPECT_EQ(dtable(i / 5, i % 5), 0);
  kernel::embedding_forward<T>({}, std::vector<Id>{3, 0}, kernel::Operand<T>::transposed(narrow), T{1}, y);
  kernel::embedding_backward<T>({}, std::vector<Id>{3, 0}, y, T{1}, {narrow, false});
}
