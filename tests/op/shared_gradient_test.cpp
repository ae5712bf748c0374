// One weight used twice by one op: both contributions count, also where the first overwrites.
#include <gtest/gtest.h>

#include <functional>

#include "eigenformer/op/affine.hpp"
#include "eigenformer/op/feed_forward.hpp"
#include "support/tensors.hpp"

namespace eigenformer::test {
namespace {

using Run = std::function<ConstView<double, 2>(Context&, const Weight<double>&)>;

void expect_overwriting_is_adding(const Run& run) {
  Weight<double> w(Shape{4, 4});
  const auto values = random_tensor<double>(Shape{4, 4}, 1);
  std::copy_n(values.data(), 16, w.data());
  Tensor<double, 2> gradients[2] = {Tensor<double, 2>(Shape{4, 4}), Tensor<double, 2>(Shape{4, 4})};
  std::fill_n(gradients[1].data(), 16, 1e9);  // to be overwritten
  for (const bool overwrite : {false, true}) {
    Context ctx;
    Tape tape;
    ctx.tape = &tape;
    tape.watch(std::as_const(w).view(), gradients[overwrite].view(),
               overwrite ? Tape::Start::overwrite : Tape::Start::add);
    const auto y = run(ctx, w);
    backward(ctx, y, random_tensor<double>(y.shape(), 2));
  }
  for (Index i = 0; i < 16; ++i) EXPECT_NEAR(gradients[0].data()[i], gradients[1].data()[i], 1e-12);
}

}  // namespace

TEST(SharedGradient, OfOneWeightInTwoPlaces) {
  const auto x = random_tensor<double>(Shape{3, 4}, 3);
  expect_overwriting_is_adding([&](Context& ctx, const Weight<double>& w) {
    return op::mlp<Gelu, double>(ctx, x.view(), {w.operand()}, {w.operand()});
  });
  expect_overwriting_is_adding([&](Context& ctx, const Weight<double>& w) {
    return op::gated_mlp<Silu, double>(ctx, x.view(), {w.operand()}, {w.operand()}, {w.operand()});
  });
  expect_overwriting_is_adding([&](Context& ctx, const Weight<double>& w) {
    const auto row = w.view()[0];
    return op::affine<double, 2>(ctx, op::linear(ctx, x.view(), w), row, row);
  });
}

}  // namespace eigenformer::test
