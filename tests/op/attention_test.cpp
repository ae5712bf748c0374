// The derivative of attention as the tape puts it together.
#include "eigenformer/op/attention.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "support/error.hpp"
#include "support/tensors.hpp"

namespace eigenformer::test {
namespace {

// Shaw's sums of weights may be all that a loss depends on: dL/dq against differences, with dL/d(sums) given.
TEST(OpAttention, SumsOfDistancesAlone) {
  const Shape<4> shape{2, 4, 2, 3};
  const auto k = random_tensor<double>(shape, 2), v = random_tensor<double>(shape, 3),
             slopes = random_tensor<double>(Shape{2, 4, 2, 5}, 4);
  auto q = random_tensor<double>(shape, 1);
  const auto sums_of = [&](Context& ctx) {
    const View<double, 4> sums = ctx.output<double>(slopes.shape());
    op::attention<double>(ctx, std::as_const(q).view(), k.view(), v.view(), {.scale = 0.5, .mask = {.causal = true}},
                          op::DistanceSums<double>{{}, sums, 2});
    return ConstView<double, 4>(sums);
  };
  Tensor<double, 4> dq(shape), dk(shape), dv(shape);
  {
    Context ctx;
    Tape tape;
    ctx.tape = &tape;
    tape.watch(std::as_const(q).view(), dq.view()), tape.watch(k.view(), dk.view()), tape.watch(v.view(), dv.view());
    backward(ctx, sums_of(ctx), slopes.view());
  }
  EXPECT_EQ(magnitude(dv), 0) << "the values are not asked";
  EXPECT_GT(magnitude(dk), 0.01);
  const auto loss = [&] {
    Context ctx;
    const auto sums = sums_of(ctx);
    double sum = 0;
    for (Index i = 0; i < sums.size(); ++i) sum += sums.data()[i] * slopes.data()[i];
    return sum;
  };
  for (Index i = 0; i < q.size(); ++i) {
    const double before = q.data()[i], step = 1e-5;
    q.data()[i] = before + step;
    const double more = loss();
    q.data()[i] = before - step;
    const double less = loss();
    q.data()[i] = before;
    ASSERT_NEAR(dq.data()[i], (more - less) / (2 * step), 1e-9) << i;
  }
}

TEST(OpAttention, DistancesOfNoColumn) {
  constexpr Index most = (std::numeric_limits<Index>::max)();
  Context ctx;
  const Tensor<float, 4> q(Shape{1, 3, 2, 4}), logits(Shape{1, 3, 2, 5});
  const Tensor<float, 2> bias(Shape{2, 5});
  const Tensor<float, 3> r(Shape{2, 4, 5});
  const auto attend = [&](const auto& score) {
    return error_of([&] { op::attention<float>(ctx, q.view(), q.view(), q.view(), {}, score); });
  };
  for (const Index before : {Index{-1}, Index{5}, most, -most}) {
    const std::string text = "[attention] distance 0 at " + std::to_string(before) + " of 5 distances";
    EXPECT_EQ(attend(op::DistanceScore<float>{{bias, before}}), text);
    EXPECT_EQ(attend(op::RelativeKeyScore<float>{logits, before}), text);
    EXPECT_EQ(attend(op::DistanceSums<float>{{}, ctx.output<float>(logits.shape()), before}), text);
  }
  EXPECT_EQ(attend(op::DistanceSums<float>{{}, ctx.output<float>(Shape{1, 2, 3, 5}), 2}),
            "[attention] sums of distances (1, 2, 3, 5) do not fit 1 sequences of 3 queries and 2 heads");
  EXPECT_EQ(attend(op::RelativeProductScore<float>{q, r, most, 1}),
            "[attention] relative keys (2, 4, 5), distance 0 at " + std::to_string(most) +
                ", do not reach 2 tokens back and 2 forth");
  EXPECT_NO_THROW(
      op::attention<float>(ctx, q.view(), q.view(), q.view(), {}, op::RelativeProductScore<float>{q, r, 2, 1}));
}

}  // namespace
}  // namespace eigenformer::test
