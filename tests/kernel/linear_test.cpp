#include <gtest/gtest.h>

#include "eigenformer/core/arena.hpp"
#include "eigenformer/kernel/gemm.hpp"
#include "support/guarded.hpp"
#include "support/oracle.hpp"
#include "support/tolerance.hpp"

using namespace eigenformer;
using namespace eigenformer::test;

template <class T>
struct LinearKernel : ::testing::Test {
  Arena arena;
};
using Scalars = ::testing::Types<float, double>;
TYPED_TEST_SUITE(LinearKernel, Scalars);

TYPED_TEST(LinearKernel, Forward) {
  using T = TypeParam;
  for_sizes([&](Index rows, Index out, Index in) {
    for_layouts([&](Layout layout) {
      this->arena.reset();
      const Guarded<T, 2> x(Shape{rows, in}, layout, 1), w(Shape{out, in}, layout, 2), y(Shape{rows, out}, layout),
          z(y.view().shape(), layout);
      const Guarded<T, 1> b(Shape{out}, layout, 3);
      kernel::linear_forward<T>({}, this->arena, x, kernel::Operand<T>::transposed(w), b, y);
      expect_close(y, oracle::linear(x.values(), w.values(), b.values()), Tolerance<T>::product);
      kernel::linear_forward<T>({}, this->arena, x, kernel::Operand<T>::transposed(w), {}, z);
      expect_close(z, oracle::linear(x.values(), w.values(), {}), Tolerance<T>::product);
    });
  });
}

TYPED_TEST(LinearKernel, BackwardInput) {
  using T = TypeParam;
  for_sizes([&](Index rows, Index out, Index in) {
    for_layouts([&](Layout layout) {
      this->arena.reset();
      for (const bool add : {false, true}) {
        const Guarded<T, 2> dy(Shape{rows, out}, layout, 1), w(Shape{out, in}, layout, 2), dx(Shape{rows, in}, layout);
        const auto place = prepared(dx, add);
        const auto before = dx.values(), dy_values = dy.values(), w_values = w.values();
        kernel::linear_backward_input<T>({}, this->arena, dy, w, place);
        const auto want = oracle::product(
            rows, in, out, [&](Index i, Index k) { return dy_values(i, k); },
            [&](Index k, Index j) { return w_values(k, j); }, [&](Index i, Index j) { return add ? before(i, j) : 0; });
        expect_close(dx, want, Tolerance<T>::product);
      }
    });
  });
}

TYPED_TEST(LinearKernel, BackwardWeightAndBias) {
  using T = TypeParam;
  for_sizes([&](Index rows, Index out, Index in) {
    for_layouts([&](Layout layout) {
      this->arena.reset();
      for (const bool add : {false, true}) {
        const Guarded<T, 2> dy(Shape{rows, out}, layout, 1), x(Shape{rows, in}, layout, 2), dw(Shape{out, in}, layout);
        const Guarded<T, 1> db(Shape{out}, layout);
        const auto weight_place = prepared(dw, add);
        const auto bias_place = prepared(db, !add);  // each has its own form
        const auto dw_before = dw.values(), dy_values = dy.values(), x_values = x.values();
        const auto db_before = db.values();
        kernel::linear_backward_weight<T>({}, this->arena, dy, x, weight_place, bias_place);
        const auto want = oracle::product(
            out, in, rows, [&](Index i, Index k) { return dy_values(k, i); },
            [&](Index k, Index j) { return x_values(k, j); },
            [&](Index i, Index j) { return add ? dw_before(i, j) : 0; });
        expect_close(dw, want, Tolerance<T>::product);
        const auto sums = oracle::product(
            1, out, rows, [](Index, Index) { return 1.0; }, [&](Index k, Index j) { return dy_values(k, j); },
            [&](Index, Index j) { return add ? 0 : db_before(j); });
        oracle::Expected<1> want_bias(Shape{out});
        for (Index j = 0; j < out; ++j) want_bias.values(j) = sums.values(0, j);
        want_bias.magnitude = sums.magnitude;
        expect_close(db, want_bias, Tolerance<T>::product);
      }
    });
  });
}

// Small integers: every order of summation gives the same bits.
TYPED_TEST(LinearKernel, ExactOnSmallIntegers) {
  using T = TypeParam;
  for_sizes([&](Index rows, Index out, Index in) {
    const Guarded<T, 2> x(Shape{rows, in}, {3}), w(Shape{out, in}, {3}), y(Shape{rows, out}, {3}), dx(Shape{rows, in}),
        dw(Shape{out, in});
    Numbers numbers(5);
    const auto integer = [&] { return static_cast<int>(numbers() * 5); };
    x.fill(integer);
    w.fill(integer);
    kernel::linear_forward<T>({}, this->arena, x, kernel::Operand<T>::transposed(w), {}, y);
    expect_close(y, oracle::linear(x.values(), w.values(), {}), 0);
    const auto y_values = y.values(), w_values = w.values(), x_values = x.values();
    kernel::linear_backward_input<T>({}, this->arena, y, w, {dx, false});
    expect_close(dx,
                 oracle::product(
                     rows, in, out, [&](Index i, Index k) { return y_values(i, k); },
                     [&](Index k, Index j) { return w_values(k, j); }, [](Index, Index) { return 0.0; }),
                 0);
    kernel::linear_backward_weight<T>({}, this->arena, y, x, {dw, false}, {});
    expect_close(dw,
                 oracle::product(
                     out, in, rows, [&](Index i, Index k) { return y_values(k, i); },
                     [&](Index k, Index j) { return x_values(k, j); }, [](Index, Index) { return 0.0; }),
                 0);
  });
}

TYPED_TEST(LinearKernel, LongSums) {
  using T = TypeParam;
  const Guarded<T, 2> x(Shape{7, 1100}, {3}, 1), w(Shape{37, 1100}, {3}, 2),
      y(Shape{7, 37}, {3});  // longer than any block of k
  kernel::linear_forward<T>({}, this->arena, x, kernel::Operand<T>::transposed(w), {}, y);
  expect_close(y, oracle::linear(x.values(), w.values(), {}), Tolerance<T>::product);
}

// A sum over nothing is 0, whatever lay in the output before.
TYPED_TEST(LinearKernel, EmptyAxes) {
  using T = TypeParam;
  for (const Index rows : {0, 5})
    for (const Index out : {0, 17})
      for (const Index in : {0, 17})
        for (const bool add : {false, true}) {
          if (rows * out * in > 0) continue;
          SCOPED_TRACE(to_string(Shape{rows, out, in}));
          const Guarded<T, 2> x(Shape{rows, in}, {}, 1), w(Shape{out, in}, {}, 2), y(Shape{rows, out}),
              dx(Shape{rows, in}), dw(Shape{out, in});
          const Guarded<T, 1> b(Shape{out}, {}, 3), db(Shape{out});
          const auto zero = [](Index, Index) { return 0.0; };
          kernel::linear_forward<T>({}, this->arena, x, kernel::Operand<T>::transposed(w), b, y);
          expect_close(y, oracle::linear(x.values(), w.values(), b.values()), Tolerance<T>::product);

          const auto dx_place = prepared(dx, add), dw_place = prepared(dw, add);
          const auto db_place = prepared(db, add);
          const auto dx_before = dx.values(), dw_before = dw.values();
          const auto db_before = db.values();
          kernel::linear_backward_input<T>({}, this->arena, y, w, dx_place);
          kernel::linear_backward_weight<T>({}, this->arena, y, x, dw_place, db_place);
          const auto before = [&](const auto& values) {
            return [&values, add](Index i, Index j) { return add ? values(i, j) : 0; };
          };
          expect_close(dx, oracle::product(rows, in, 0, zero, zero, before(dx_before)), 0);
          expect_close(dw, oracle::product(out, in, 0, zero, zero, before(dw_before)), 0);
          if (rows > 0) continue;
          for (Index j = 0; j < out; ++j) EXPECT_EQ(db(j), add ? static_cast<T>(db_before(j)) : T{0});
        }
}

TYPED_TEST(LinearKernel, NothingIsComputedForNobody) {
  using T = TypeParam;
  const Guarded<T, 2> x(Shape{3, 4}, {}, 1), w(Shape{5, 4}, {}, 2), dy(Shape{3, 5}, {}, 3);
  const Guarded<T, 1> db(Shape{5});
  kernel::linear_backward_input<T>({}, this->arena, dy, w, {});
  kernel::linear_backward_weight<T>({}, this->arena, dy, x, {}, {});
  kernel::linear_backward_weight<T>({}, this->arena, dy, x, {}, {db, false});
  for (Index j = 0; j < 5; ++j)
    EXPECT_NEAR(static_cast<double>(db(j)), static_cast<double>(dy(0, j) + dy(1, j) + dy(2, j)), 1e-6);
}

// One value repeated by stride 0.
TYPED_TEST(LinearKernel, RepeatedRows) {
  using T = TypeParam;
  const Guarded<T, 2> x(Shape{1, 17}, {}, 1), w(Shape{21, 17}, {}, 2), y(Shape{5, 21}), once(Shape{1, 21});
  kernel::linear_forward<T>({}, this->arena, ConstView<T, 2>(x.view().data(), {5, 17}, {0, 1}),
                            kernel::Operand<T>::transposed(w), {}, y);
  Tensor<double, 2> repeated(Shape{5, 17});
  for (Index i = 0; i < 5; ++i)
    for (Index j = 0; j < 17; ++j) repeated(i, j) = static_cast<double>(x(0, j));
  expect_close(y, oracle::linear(repeated, w.values(), {}), Tolerance<T>::product);
}

// The guarantee: an element has the same bits whatever else is computed with it.
TYPED_TEST(LinearKernel, ARowAloneAndARowOfManyAreTheSameBits) {
  using T = TypeParam;
  constexpr Index rows = 23, out = 75, in = 600;
  const Guarded<T, 2> x(Shape{rows, in}, {}, 1), w(Shape{out, in}, {}, 2), y(Shape{rows, out});
  const Guarded<T, 1> b(Shape{out}, {}, 3);
  kernel::linear_forward<T>({}, this->arena, x, kernel::Operand<T>::transposed(w), b, y);
  for (Index count = 1; count <= kernel::few_rows + 1; ++count)
    for (Index row = 0; row + count <= rows; row += 3) {
      const Index first = row * 2 % (out - 19);
      const Guarded<T, 2> part(Shape{count, 19});
      kernel::linear_forward<T>({}, this->arena, x.view().slice(0, row, count),
                                kernel::Operand<T>::transposed(w.view().slice(0, first, 19)),
                                ConstView<T, 1>(b.view().slice(0, first, 19)), part);
      for (Index i = 0; i < count; ++i)
        for (Index j = 0; j < 19; ++j) ASSERT_EQ(part(i, j), y(row + i, first + j)) << count << " rows from " << row;
      this->arena.reset();
    }
}

TYPED_TEST(LinearKernel, TheRestOfABatchDoesNotChangeDerivativesOfARow) {
  using T = TypeParam;
  constexpr Index rows = 23, out = 75, in = 45;
  const Guarded<T, 2> dy(Shape{rows, out}, {}, 1), w(Shape{out, in}, {}, 2), dx(Shape{rows, in}), one(Shape{1, in});
  kernel::linear_backward_input<T>({}, this->arena, dy, w, {dx, false});
  for (Index i = 0; i < rows; ++i) {
    kernel::linear_backward_input<T>({}, this->arena, dy.view().slice(0, i, 1), w, {one, false});
    for (Index j = 0; j < in; ++j) ASSERT_EQ(one(0, j), dx(i, j)) << i;
  }
}

// Packed before, against a guard page, and the same bits as without.
TYPED_TEST(LinearKernel, PackedWeights) {
  using T = TypeParam;
  for (const Index rows : {Index{1}, Index{7}, kernel::few_rows, kernel::few_rows + 1})
    for (const Index out : {3, 16, 37, 100})
      for (const Index in : {1, 17, 530}) {
        const Guarded<T, 2> x(Shape{rows, in}, {5}, 1), w(Shape{out, in}, {3}, 2), y(Shape{rows, out}, {2}),
            z(Shape{rows, out});
        const Guarded<T, 1> b(Shape{out}, {}, 3), memory(Shape{kernel::Operand<T>::size(in, out)});
        const auto values = kernel::Operand<T>::transposed(w), packed = kernel::pack({}, values, memory.view().data());
        kernel::linear_forward<T>(Threads(2), this->arena, x, values, ConstView<T, 1>(b), y);
        kernel::linear_forward<T>({}, this->arena, x, packed, ConstView<T, 1>(b), z);
        for (Index i = 0; i < rows; ++i)
          for (Index j = 0; j < out; ++j) ASSERT_EQ(z(i, j), y(i, j)) << rows << ' ' << out << ' ' << in;
      }
}
