// Feed-forward networks against products and activations one after the other, packed or not, kept or not.
#include "eigenformer/kernel/feed_forward.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "support/guarded.hpp"
#include "support/oracle.hpp"
#include "support/tolerance.hpp"

using namespace eigenformer;
using namespace eigenformer::test;

namespace {

double silu_of(double x) { return x / (1 + std::exp(-x)); }

oracle::Expected<2> map_elements(const oracle::Expected<2>& x, auto&& f) {
  auto y = x;
  for (Index i = 0; i < x.values.size(); ++i) y.values.data()[i] = f(i, x.values.data()[i]);
  return y;
}

template <class T>
kernel::Operand<T> operand(ConstView<T, 2> weight) {
  return kernel::Operand<T>::transposed(weight);
}
template <class T>
kernel::Operand<T> packed(Arena& arena, ConstView<T, 2> weight) {
  return kernel::pack({}, operand(weight),
                      arena.allocate<T>(kernel::Operand<T>::size(weight.extent(1), weight.extent(0))));
}

}  // namespace

template <class T>
struct FeedForwardKernel : ::testing::Test {};
using Scalars = ::testing::Types<float, double>;
TYPED_TEST_SUITE(FeedForwardKernel, Scalars);

TYPED_TEST(FeedForwardKernel, PlainAndGated) {
  using T = TypeParam;
  for (const Index rows : {1, 7, 97})
    for (const Index hidden : {3, 70})
      for_layouts([&](Layout layout) {
        const Guarded<T, 2> x(Shape{rows, Index{9}}, layout, 1), gate(Shape{hidden, Index{9}}, layout, 2),
            up(Shape{hidden, Index{9}}, layout, 3), down(Shape{Index{5}, hidden}, layout, 4);
        const Guarded<T, 1> gate_bias(Shape{hidden}, layout, 5), up_bias(Shape{hidden}, layout, 6),
            down_bias(Shape{5}, layout, 7);
        const auto g = oracle::linear(x.values(), gate.values(), gate_bias.values()),
                   u = oracle::linear(x.values(), up.values(), up_bias.values());
        const auto plain_hidden = map_elements(u, [](Index, double s) { return silu_of(s); });
        const auto gated_hidden = map_elements(g, [&](Index i, double s) { return silu_of(s) * u.values.data()[i]; });
        const auto plain = oracle::linear(plain_hidden.values, down.values(), down_bias.values());
        const auto gated = oracle::linear(gated_hidden.values, down.values(), down_bias.values());
        Arena arena;
        for (const bool pack : {false, true})
          for (const bool keep : {false, true}) {
            const auto map = [&](const Guarded<T, 2>& weight, const Guarded<T, 1>& bias) {
              return kernel::WeightAndBias<T>{pack ? packed<T>(arena, weight) : operand<T>(weight), bias};
            };
            const Guarded<T, 2> y(Shape{rows, Index{5}}, layout), z(Shape{rows, Index{5}}, layout),
                kept(Shape{rows, hidden}, layout), kept_gate(Shape{rows, hidden}, layout),
                kept_up(Shape{rows, hidden}, layout);
            const View<T, 2> none;
            kernel::mlp_forward<Silu, T>({}, arena, x, map(up, up_bias), map(down, down_bias),
                                         keep ? kept.view() : none, y);
            kernel::gated_mlp_forward<Silu, T>({}, arena, x, map(gate, gate_bias), map(up, up_bias),
                                               map(down, down_bias), keep ? kept_gate.view() : none,
                                               keep ? kept_up.view() : none, z);
            const double depth = static_cast<double>(hidden);
            expect_close(y, plain, Tolerance<T>::product * depth);
            expect_close(z, gated, Tolerance<T>::product * depth);
            if (!keep) continue;
            expect_close(kept, u, Tolerance<T>::product);
            expect_close(kept_gate, g, Tolerance<T>::product);
            expect_close(kept_up, u, Tolerance<T>::product);
          }
      });
}

// A row of many is the row alone, whatever chunk it falls in.
TYPED_TEST(FeedForwardKernel, ARowAloneIsTheRowInABatch) {
  using T = TypeParam;
  const Guarded<T, 2> x(Shape{800, 9}, {}, 1), gate(Shape{70, 9}, {}, 2), up(Shape{70, 9}, {}, 3),
      down(Shape{5, 70}, {}, 4), y(Shape{800, 5}), z(Shape{800, 5}), one(Shape{1, 5});
  Arena arena;
  const kernel::WeightAndBias<T> g{packed<T>(arena, gate)}, u{packed<T>(arena, up)}, d{packed<T>(arena, down)},
      per_call{operand<T>(up)}, down_per_call{operand<T>(down)};
  kernel::mlp_forward<Relu, T>({}, arena, x, u, d, {}, y);
  kernel::gated_mlp_forward<Gelu, T>({}, arena, x, g, u, d, {}, {}, z);
  for (const Index i : {0, 5, 383, 384, 385, 799}) {
    kernel::mlp_forward<Relu, T>({}, arena, x.view().slice(0, i, 1), per_call, down_per_call, {}, one);
    for (Index j = 0; j < 5; ++j) ASSERT_EQ(one(0, j), y(i, j));
    kernel::gated_mlp_forward<Gelu, T>({}, arena, x.view().slice(0, i, 1), {operand<T>(gate)}, per_call, down_per_call,
                                       {}, {}, one);
    for (Index j = 0; j < 5; ++j) ASSERT_EQ(one(0, j), z(i, j));
  }
}
