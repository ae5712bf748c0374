// A packed weight is never older than its values.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <tuple>
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
  EXPECT_TRUE(model.weight.operand().is_packed());
  model.weight(3, 4) = 1;
  EXPECT_FALSE(model.weight.operand().is_packed());
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
  EXPECT_EQ(copy.weight.operand().data, model.weight.operand().data) << "copies share the memory";
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
  EXPECT_TRUE(model.weight.operand().is_packed());

  Tape tape;
  OneWeight gradient;
  EXPECT_EQ(error_of([&] { tape.watch(constant, gradient); }), gone);
}

// What stands before a weight without values is trained through it: adapters are.
TEST(Packed, GradientsGoThroughIt) {
  OneWeight model;
  const auto values = random_tensor<float>(Shape{40, 30}, 2);
  std::copy_n(values.data(), values.size(), model.weight.data());
  const OneWeight before = model;
  Context ctx;
  pack(ctx, model, {.keep_values = false});
  const auto gradient_of = [&](const OneWeight& by, auto&& f) {
    Tensor<float, 2> x = random_tensor<float>(Shape{3, 30}, 1), gradient(x.shape());
    Tape tape;
    ctx.tape = &tape;
    tape.watch(x.view(), gradient.view());
    const auto y = f(by, x.view());
    const auto dy = random_tensor<float>(y.shape(), 4);
    backward(ctx, y, dy);
    ctx.tape = nullptr;
    return gradient;
  };
  const auto linear = [&](const OneWeight& by, ConstView<float, 2> x) { return op::linear(ctx, x, by.weight); };
  const auto activated = [&](const OneWeight& by, ConstView<float, 2> x) {
    return op::activated_linear<Gelu>(ctx, x, by.weight);
  };
  EXPECT_TRUE(identical(gradient_of(model, linear), gradient_of(before, linear)));
  EXPECT_TRUE(identical(gradient_of(model, activated), gradient_of(before, activated)));
}

TEST(Packed, InEveryFormat) {
  OneWeight model;
  const auto values = random_tensor<float>(Shape{40, 30}, 2);
  std::copy_n(values.data(), values.size(), model.weight.data());
  const auto x = random_tensor<float>(Shape{5, 30}, 3);
  const std::vector<Id> ids{39, 0, 16};
  const ConstView<Id, 2> rows(ids.data(), Shape{1, 3});
  Context ctx;
  const Tensor<float, 2> exact(op::linear(ctx, x.view(), model.weight));
  // Of an element, relative to its row: 2⁻⁹ and 2⁻¹² for the 16 bits, half a step of 127 and of 8 for the others.
  for (const auto& [format, error, bytes] : {std::tuple{Format::bf16, 0.004, 64 * 30 * 2},
                                             {Format::f16, 0.0005, 64 * 30 * 2},
                                             {Format::int8, 0.01, 64 * 32 + 64 * 2},
                                             {Format::int4, 0.12, 64 * 16 + 64 * 2}}) {
    SCOPED_TRACE(format_name(format));
    OneWeight packed = model;
    pack(ctx, packed, {.format = format, .keep_values = false});
    EXPECT_EQ(packed.weight.format(), format);
    EXPECT_EQ(packed.weight.bytes(), bytes);
    const auto y = op::linear(ctx, x.view(), packed.weight);
    double off = 0, size = 0;
    for (Index i = 0; i < exact.size(); ++i) {
      off += std::pow(y.data()[i] - exact.data()[i], 2);
      size += std::pow(exact.data()[i], 2);
    }
    EXPECT_LE(std::sqrt(off / size), error);
    const auto looked_up = op::embedding(ctx, rows, packed.weight, 2);
    for (Index i = 0; i < 3; ++i)
      for (Index k = 0; k < 30; ++k)
        ASSERT_NEAR(looked_up(0, i, k), 2 * values(ids[static_cast<std::size_t>(i)], k), 2 * 3.5 * error);
  }
}

TEST(Packed, WhatDoesNotFitChangesNothing) {
  OneWeight model;
  Context ctx;
  model.weight(3, 4) = 1;
  pack(ctx, model);
  EXPECT_EQ(error_of([&] { pack(ctx, model, {.format = Format::int8, .group = 48}); }),
            "[pack] group is invalid: must be 0, 32, 64 or 128, not 48");
  model.weight(3, 4) = 65520;
  EXPECT_EQ(error_of([&] { pack(ctx, model, {.format = Format::f16}); }),
            "[pack] weight: [weight] (40, 30) has an element of magnitude 65520, more than f16 can hold");
  model.weight(3, 4) = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(error_of([&] { pack(ctx, model, {.format = Format::int8, .keep_values = false}); }),
            "[pack] weight: [weight] row 3 of (40, 30) has elements that are no numbers: there is no int8 of it");
  EXPECT_TRUE(model.weight.keeps_values());
  OneWeight given_up;
  pack(ctx, given_up, {.format = Format::int8, .keep_values = false});
  pack(ctx, given_up, {.format = Format::int8});
  pack(ctx, given_up);
  EXPECT_EQ(given_up.weight.format(), Format::int8);
  EXPECT_EQ(error_of([&] { pack(ctx, given_up, {.format = Format::int4}); }),
            "[pack] weight: its values were given up, it is int8 and cannot become int4");
  EXPECT_EQ(error_of([&] {
              pack(ctx, model, {.importance = [](const std::string&) {
                     static const std::vector<float> below(30, -1.0f);
                     return std::span<const float>(below);
                   }});
            }),
            "[pack] weight: importance -1 is invalid: must be 0 or more");
  EXPECT_EQ(error_of([&] {
              pack(ctx, model, {.importance = [](const std::string&) {
                     static const float one[1] = {1};
                     return std::span<const float>(one);
                   }});
            }),
            "[pack] weight: importance of 1 inputs, but there are 30");
}

}  // namespace eigenformer::test
