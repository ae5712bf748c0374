// A packed weight is never older than its values.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "eigenformer/core/initialize.hpp"
#include "eigenformer/op/activation.hpp"
#include "eigenformer/op/embedding.hpp"
#include "eigenformer/op/feed_forward.hpp"
#include "eigenformer/op/linear.hpp"
#include "support/error.hpp"
#include "support/tensors.hpp"

namespace eigenformer::test {
namespace {

struct OneWeight {
  Weight<float> weight{Shape{40, 30}};
  static void visit(auto&& f, auto&... m) { f(Leaf{"weight"}, m.weight...); }
};

const std::string stale = "[weight] elements of (40, 30) were changed through a view from before pack(): pack again";

}  // namespace

TEST(Packed, AViewFromBeforeIsFoundOut) {
  OneWeight model;
  const View<float, 2> before = model.weight.view();
  const auto x = random_tensor<float>(Shape{2, 30}, 1);
  Context ctx;
  const auto product = [&] { return op::linear(ctx, x.view(), model.weight); };
  pack(ctx, model);
  EXPECT_EQ(product()(0, 0), 0);
  std::fill_n(before.data(), before.size(), 1.0f);  // as a step of training does
  EXPECT_EQ(error_of(product), stale);
  pack(ctx, model);
  float sum = 0;
  for (Index i = 0; i < 30; ++i) sum += x(0, i);
  EXPECT_NEAR(product()(0, 7), sum, 1e-5);
#ifndef NDEBUG
  before(11, 13) = 2;
  EXPECT_EQ(error_of(product), stale) << "in a debug build, a single element";
#endif
}

TEST(Packed, AnAccessDropsIt) {
  OneWeight model;
  const auto x = random_tensor<float>(Shape{2, 30}, 1);
  Context ctx;
  pack(ctx, model);
  EXPECT_TRUE(model.weight.operand(ctx).is_packed());
  model.weight(3, 4) = 1;
  EXPECT_FALSE(model.weight.operand(ctx).is_packed());
  EXPECT_EQ(op::linear(ctx, x.view(), model.weight)(1, 3), x(1, 4));
}

// Width 40 is no whole panel; two rows read strips, twenty read panels where there are values.
TEST(Packed, AloneItComputesTheSameBits) {
  OneWeight model;
  const auto values = random_tensor<float>(Shape{40, 30}, 2);
  std::copy_n(values.data(), values.size(), model.weight.data());
  const OneWeight before = model;
  Context ctx;
  pack(ctx, model, {.keep_values = false});
  const OneWeight copy = model;
  EXPECT_EQ(copy.weight.operand(ctx).data, model.weight.operand(ctx).data) << "copies share the memory";
  EXPECT_EQ(parameter_count(copy), 1200);
  pack(ctx, model);  // nothing is left to do
  for (const Index rows : {2, 20}) {
    const auto x = random_tensor<float>(Shape{rows, 30}, 3);
    EXPECT_TRUE(identical(op::linear(ctx, x.view(), copy.weight), op::linear(ctx, x.view(), before.weight)));
    EXPECT_TRUE(identical(op::activated_linear<Relu>(ctx, x.view(), copy.weight),
                          op::activated_linear<Relu>(ctx, x.view(), before.weight)));
  }
  const std::vector<Id> ids{39, 0, 16, 39, 7, 31};
  const ConstView<Id, 2> rows(ids.data(), Shape{2, 3});
  EXPECT_TRUE(identical(op::embedding(ctx, rows, copy.weight, 3), op::embedding(ctx, rows, before.weight, 3)));
}

TEST(Packed, AloneItHasNoValues) {
  const std::string gone = "[weight] its values were given up by pack(): this weight serves inference alone";
  OneWeight model;
  Context ctx;
  pack(ctx, model, {.keep_values = false});
  const OneWeight& constant = model;
  EXPECT_EQ(error_of([&] { model.weight.data(); }), gone);
  EXPECT_EQ(error_of([&] { constant.weight.data(); }), gone);
  EXPECT_EQ(error_of([&] { constant.weight(0, 0); }), gone);
  EXPECT_EQ(error_of([&] { constant.weight.matrix(); }), gone);
  EXPECT_EQ(error_of([&] { initialize(model, 1); }), gone);
  EXPECT_EQ(error_of([&] { zeros_like(model); }), gone);
  EXPECT_TRUE(model.weight.operand(ctx).is_packed());

  // Its derivatives would need them.
  Tape tape;
  ctx.tape = &tape;
  const auto x = random_tensor<float>(Shape{2, 30}, 1);
  const Tensor<Id, 2> ids(Shape{1, 1});
  EXPECT_EQ(error_of([&] { op::linear(ctx, x.view(), model.weight); }), gone);
  EXPECT_EQ(error_of([&] { op::activated_linear<Relu>(ctx, x.view(), model.weight); }), gone);
  EXPECT_EQ(error_of([&] { op::mlp<Relu>(ctx, x.view(), {model.weight.operand(ctx)}, {model.weight.operand(ctx)}); }),
            gone);
  EXPECT_EQ(error_of([&] { op::embedding(ctx, ids.view(), model.weight); }), gone);
  OneWeight gradient;
  EXPECT_EQ(error_of([&] { tape.watch(constant, gradient); }), gone);
}

}  // namespace eigenformer::test
