// One tensor in several places of a call: results are new tensors, and the derivative adds up over the places.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "eigenformer/op/activation.hpp"
#include "eigenformer/op/attention.hpp"
#include "eigenformer/op/dropout.hpp"
#include "eigenformer/op/linear.hpp"
#include "eigenformer/op/norm.hpp"
#include "eigenformer/op/softmax.hpp"
#include "support/guarded.hpp"
#include "support/oracle.hpp"

using namespace eigenformer;
using namespace eigenformer::test;

namespace {

template <int Rank>
Tensor<double, Rank> random(Shape<Rank> shape, std::uint32_t seed) {
  Tensor<double, Rank> x(shape);
  Numbers numbers(seed);
  for (Index i = 0; i < x.size(); ++i) x.data()[i] = numbers();
  return x;
}

template <int Rank>
void expect_near(const Tensor<double, Rank>& got, const Tensor<double, Rank>& want) {
  for (Index i = 0; i < want.size(); ++i) ASSERT_NEAR(got.data()[i], want.data()[i], 1e-12) << i;
}

struct Recording {
  Context ctx;
  Tape tape;
  Recording() { ctx.tape = &tape; }
};

/// The gradient of Σ dy·f(ctx, x).
template <int Rank, int OutRank>
Tensor<double, Rank> gradient(const Tensor<double, Rank>& x, const Tensor<double, OutRank>& dy, auto&& f) {
  Recording r;
  Tensor<double, Rank> dx(x.shape());
  const auto constant = Tensor<double, Rank>(x);
  // A computed x, not a watched one: its gradient is first written, then added to.
  r.tape.watch(constant.view(), dx.view());
  const auto computed = op::add(r.ctx, constant.view(), Tensor<double, Rank>(x.shape()).view());
  backward(r.ctx, f(r.ctx, computed), dy.view());
  return dx;
}

}  // namespace

TEST(Alias, ResultsAreNewTensors) {
  Context ctx;
  const auto x = random(Shape{4, 5}, 1);
  const auto before = x;
  const std::vector<const double*> results{op::activate<Relu>(ctx, x.view()).data(), op::softmax(ctx, x.view()).data(),
                                           op::log_softmax(ctx, x.view()).data(),
                                           op::add(ctx, x.view(), x.view()).data(),
                                           op::layer_norm(ctx, x.view(), {}, {}, 1e-5).data()};
  for (const double* result : results) {
    EXPECT_NE(result, x.data());
    EXPECT_EQ(std::count(results.begin(), results.end(), result), 1);
  }
  EXPECT_EQ(x.matrix(), before.matrix());
}

TEST(Alias, ASumOfTwice) {
  const auto x = random(Shape{4, 5}, 1), dy = random(Shape{4, 5}, 2);
  auto want = dy;
  for (Index i = 0; i < 20; ++i) want.data()[i] *= 2;
  expect_near(gradient(x, dy, [](Context& ctx, ConstView<double, 2> z) { return op::add(ctx, z, z); }), want);
}

// x·xᵀ: d = (dy + dyᵀ)·x
TEST(Alias, InputAndWeightOfALinear) {
  const auto x = random(Shape{4, 5}, 1), dy = random(Shape{4, 4}, 2);
  Tensor<double, 2> want(x.shape());
  for (Index i = 0; i < 4; ++i)
    for (Index j = 0; j < 5; ++j)
      for (Index k = 0; k < 4; ++k) want(i, j) += (dy(i, k) + dy(k, i)) * x(k, j);
  expect_near(gradient(x, dy, [](Context& ctx, ConstView<double, 2> z) { return op::linear(ctx, z, z); }), want);
}

TEST(Alias, QueriesKeysAndValuesOfAnAttention) {
  const auto x = random(Shape{2, 35, 2, 3}, 1), other = random(Shape{2, 35, 2, 3}, 3),
             dy = random(Shape{2, 35, 2, 3}, 2);
  for (int places = 1; places < 8; ++places) {
    const auto pick = [&](int place, const auto& same, const auto& constant) {
      return places >> place & 1 ? same : constant;
    };
    const oracle::Attention attention{pick(0, x, other), pick(1, x, other), pick(2, x, other), 0.7};
    const auto slopes = attention.backward(dy);
    Tensor<double, 4> want(x.shape());
    int place = 0;
    for (const auto* slope : {&slopes.query.values, &slopes.key.values, &slopes.value.values}) {
      if (places >> place++ & 1)
        for (Index i = 0; i < want.size(); ++i) want.data()[i] += slope->data()[i];
    }
    SCOPED_TRACE(places);
    const ConstView<double, 4> constant = other.view();
    expect_near(gradient(x, dy,
                         [&](Context& ctx, ConstView<double, 4> z) {
                           return op::attention(ctx, pick(0, z, constant), pick(1, z, constant), pick(2, z, constant),
                                                {.scale = 0.7});
                         }),
                want);
  }
}

// Grouped heads: (4 tokens, 2 heads) as queries, (8 tokens, 1 head) as keys and values, of the same 32 numbers. The
// same from copies, whose gradients the tape adds up.
TEST(Alias, QueriesAndKeysOfTwoShapes) {
  const auto x = random(Shape{8, 4}, 1);
  const auto dy = random(Shape{1, 4, 2, 4}, 2);
  const auto attend = [](Context& ctx, ConstView<double, 2> q, ConstView<double, 2> k, ConstView<double, 2> v) {
    return op::attention<double>(ctx, q.reshape(Shape{1, 4, 2, 4}), k.reshape(Shape{1, 8, 1, 4}),
                                 v.reshape(Shape{1, 8, 1, 4}), {.scale = 0.5});
  };
  const Tensor<double, 2> zeros(x.shape());
  const auto want = gradient(x, dy, [&](Context& ctx, ConstView<double, 2> z) {
    const auto copy = [&] { return op::add(ctx, z, zeros.view()); };
    return attend(ctx, copy(), copy(), copy());
  });
  expect_near(gradient(x, dy, [&](Context& ctx, ConstView<double, 2> z) { return attend(ctx, z, z, z); }), want);
}
