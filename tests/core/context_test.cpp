#include "eigenformer/core/context.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/error.hpp"

using namespace eigenformer;
using test::error_of;

TEST(Context, AFreshOneIsSerialAndRecordsNothing) {
  Context ctx;
  EXPECT_EQ(ctx.threads.count(), 1);
  EXPECT_EQ(ctx.tape, nullptr);
  EXPECT_EQ(ctx.random, nullptr);
  EXPECT_EQ(Context(Threads(2)).threads.count(), 2);
}

TEST(Context, ScratchIsGivenBackAtTheEndOfItsScope) {
  Context ctx;
  const float* inside;
  {
    const auto scratch = ctx.scratch();
    inside = ctx.output<float>(Shape{10}).data();
  }
  EXPECT_EQ(ctx.output<float>(Shape{10}).data(), inside);
}

TEST(Context, KeepResultKeepsNothingElse) {
  Context ctx;
  ctx.output<float>(Shape{4});
  const auto kept = ctx.keep_result<float>(Shape{2, 3}, [&] {
    ctx.output<float>(Shape{1000});
    const auto y = ctx.output<float>(Shape{2, 3});
    std::fill_n(y.data(), 6, 7.0f);
    return ConstView<float, 2>(y);
  });
  const float* const next = ctx.output<float>(Shape{1}).data();
  EXPECT_EQ(next - kept.data(), 16) << "directly behind the result, which fills half of two cache lines";
  for (Index i = 0; i < 6; ++i) EXPECT_EQ(kept.data()[i], 7);
}

TEST(Context, KeepResultWantsTheShapeItWasPromised) {
  Context ctx;
  EXPECT_EQ(error_of([&] {
              ctx.keep_result<float>(Shape{2, 3}, [&] { return ConstView<float, 2>(ctx.output<float>(Shape{3, 2})); });
            }),
            "[context] expected a result of (2, 3), not (3, 2)");
}

TEST(Context, KeepResultKeepsEverythingForATape) {
  Context ctx;
  Tape tape;
  ctx.tape = &tape;
  const float* inner = nullptr;
  const auto kept = ctx.keep_result<float>(Shape{2, 3}, [&] {
    const auto y = ctx.output<float>(Shape{2, 3});
    inner = y.data();
    return ConstView<float, 2>(y);
  });
  EXPECT_EQ(kept.data(), inner);
  EXPECT_NE(ctx.output<float>(Shape{2, 3}).data(), inner);
}

TEST(Context, WithoutATapeNothingIsRecorded) {
  Context ctx;
  ctx.record(ctx.output<float>(Shape{1}), [](Context&, ConstView<float, 1>) { FAIL(); });
  EXPECT_EQ(error_of([&] { backward(ctx, ConstView<float, 1>(ctx.output<float>(Shape{1}))); }),
            "[backward] nothing was recorded: the context has no tape");
}
