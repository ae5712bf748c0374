// A packed weight is never older than its values.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

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
  pack(ctx.threads, model);
  EXPECT_EQ(product()(0, 0), 0);
  std::fill_n(before.data(), before.size(), 1.0f);  // as a step of training does
  EXPECT_EQ(error_of(product), stale);
  pack(ctx.threads, model);
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
  pack(ctx.threads, model);
  EXPECT_TRUE(model.weight.panels().data);
  model.weight(3, 4) = 1;
  EXPECT_FALSE(model.weight.panels().data);
  EXPECT_EQ(op::linear(ctx, x.view(), model.weight)(1, 3), x(1, 4));
}

}  // namespace eigenformer::test
