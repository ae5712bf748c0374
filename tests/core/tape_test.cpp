#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "eigenformer/core/context.hpp"
#include "support/error.hpp"

using namespace eigenformer;
using test::error_of;

namespace {

struct Recording {
  Context ctx;
  Tape tape;
  Recording() { ctx.tape = &tape; }
};

/// factor·x, rows of any distance
template <int Rank>
ConstView<double, Rank> times(Context& ctx, ConstView<double, Rank> x, double factor) {
  const View<double, Rank> y = ctx.output<double>(x.shape());
  y.matrix() = factor * x.matrix();
  ctx.record(y, [=](Context& back, ConstView<double, Rank> dy) {
    if (const auto dx = back.gradient(x)) dx.put(dx.view.matrix(), factor * dy.matrix());
  });
  return y;
}

/// Σ weights·x
ConstView<double, 1> weighted_sum(Context& ctx, ConstView<double, 2> x, ConstView<double, 2> weights) {
  const View<double, 1> y = ctx.output<double>(Shape{1});
  y[0] = (weights.matrix().array() * x.matrix().array()).sum();
  ctx.record(y, [=](Context& back, ConstView<double, 1> dy) {
    if (const auto dx = back.gradient(x)) dx.put(dx.view.matrix(), dy[0] * weights.matrix());
  });
  return y;
}

Tensor<double, 2> counting(Index rows, Index columns) {
  Tensor<double, 2> x(Shape{rows, columns});
  for (Index i = 0; i < x.size(); ++i) x.data()[i] = static_cast<double>(i + 1);
  return x;
}

std::vector<double> elements(const Tensor<double, 2>& x) { return {x.data(), x.data() + x.size()}; }

struct Weights {
  Tensor<double, 2> w;
  explicit Weights(Index rows, Index columns) : w(counting(rows, columns)) {}
  static void visit(auto&& f, auto&... m) { f(Leaf{"w"}, m.w...); }
};

}  // namespace

TEST(Tape, DifferentiatesAChain) {
  Recording r;
  Tensor<double, 2> x = counting(2, 2), dx(x.shape());
  const auto weights = counting(2, 2);
  r.tape.watch(x.view(), dx.view());
  const auto y = weighted_sum(r.ctx, times(r.ctx, times(r.ctx, ConstView<double, 2>(x), 3), 5), weights);
  EXPECT_EQ(y[0], 15 * (1 + 4 + 9 + 16));
  EXPECT_EQ(r.tape.size(), 3);
  backward(r.ctx, y, 2.0);
  EXPECT_EQ(elements(dx), (std::vector<double>{30, 60, 90, 120}));
  EXPECT_EQ(r.tape.size(), 0);
}

TEST(Tape, SeveralUsesAddUp) {
  Recording r;
  const auto x = counting(1, 3), weights = counting(1, 3);
  Tensor<double, 2> dx(x.shape());
  r.tape.watch(x.view(), dx.view());
  const auto middle = times(r.ctx, x.view(), 1);
  const auto a = times(r.ctx, middle, 10), b = times(r.ctx, middle, 100);
  const auto ya = weighted_sum(r.ctx, a, weights), yb = weighted_sum(r.ctx, b, weights);
  const View<double, 1> y = r.ctx.output<double>(Shape{1});
  y[0] = ya[0] + yb[0];
  r.ctx.record(y, [=](Context& back, ConstView<double, 1> dy) {
    for (const auto& part : {ya, yb}) {
      const auto dpart = back.gradient(part);
      dpart.view[0] = (dpart.add ? dpart.view[0] : 0) + dy[0];
    }
  });
  backward(r.ctx, ConstView<double, 1>(y));
  EXPECT_EQ(elements(dx), (std::vector<double>{110, 220, 330}));
}

TEST(Tape, TheGradientOfASliceIsASliceOfTheGradient) {
  Recording r;
  const auto x = counting(2, 4);
  Tensor<double, 2> dx(x.shape());
  r.tape.watch(x.view(), dx.view());
  const auto all = times(r.ctx, x.view(), 1);
  const auto weights = counting(2, 2);
  const auto y = weighted_sum(r.ctx, times(r.ctx, all.slice(1, 1, 2), 10), weights);
  backward(r.ctx, y);
  EXPECT_EQ(elements(dx), (std::vector<double>{0, 10, 20, 0, 0, 30, 40, 0})) << "what nobody used has gradient 0, not garbage";
}

TEST(Tape, SlicesReshapesAndHeadsShareOneBuffer) {
  Recording r;
  const auto x = counting(2, 4);
  Tensor<double, 2> dx(x.shape());
  r.tape.watch(x.view(), dx.view());
  const auto all = times(r.ctx, x.view(), 1);                 // (2, 4)
  const auto heads = all.split_last(2);                       // (2, 2, 2)
  const auto second = heads.slice(1, 1, 1).flat();            // columns 2 and 3
  const auto tall = all.reshape(Shape{4, 2}).slice(0, 1, 2);  // elements 2 … 5
  const Tensor<double, 2> ones = [] {
    auto t = counting(2, 2);
    std::fill_n(t.data(), 4, 1.0);
    return t;
  }();
  const auto a = weighted_sum(r.ctx, second, ones), b = weighted_sum(r.ctx, times(r.ctx, tall, 10), ones);
  const View<double, 1> y = r.ctx.output<double>(Shape{1});
  r.ctx.record(y, [=](Context& back, ConstView<double, 1>) {
    back.gradient(a).view[0] = 1;
    back.gradient(b).view[0] = 1;
  });
  y[0] = a[0] + b[0];
  backward(r.ctx, ConstView<double, 1>(y));
  EXPECT_EQ(elements(dx), (std::vector<double>{0, 0, 11, 11, 10, 10, 1, 1}));
}

TEST(Tape, ConstantsHaveNoGradient) {
  Recording r;
  const auto constant = counting(1, 2), weights = counting(1, 2);
  EXPECT_FALSE(r.ctx.gradient(constant.view()));
  EXPECT_FALSE(r.ctx.gradient(ConstView<double, 2>()));
  backward(r.ctx, weighted_sum(r.ctx, times(r.ctx, constant.view(), 2), weights));  // and nothing crashes
  EXPECT_FALSE(r.ctx.gradient(constant.view()));
}

TEST(Tape, StepsThatTheResultDoesNotDependOnAreSkipped) {
  Recording r;
  const auto x = counting(1, 2), weights = counting(1, 2);
  const auto y = weighted_sum(r.ctx, times(r.ctx, x.view(), 2), weights);
  r.ctx.record(r.ctx.output<double>(Shape{1}), [](Context&, ConstView<double, 1>) { FAIL() << "nothing depends on this"; });
  backward(r.ctx, y);
}

TEST(Tape, WatchedGradientsAccumulateOverSteps) {
  Recording r;
  const Weights model(1, 3);
  Weights gradient = zeros_like(model);
  r.tape.watch(model, gradient);
  const auto weights = counting(1, 3);
  for (int step = 1; step <= 3; ++step) {
    backward(r.ctx, weighted_sum(r.ctx, times(r.ctx, model.w.view(), 1), weights));
    r.ctx.reset();
    EXPECT_EQ(elements(gradient.w), (std::vector<double>{1.0 * step, 2.0 * step, 3.0 * step}));
  }
}

TEST(Tape, ResetForgetsWhatWasRecordedNotWhatIsWatched) {
  Recording r;
  const auto x = counting(1, 3), weights = counting(1, 3);
  Tensor<double, 2> dx(x.shape());
  r.tape.watch(x.view(), dx.view());
  const auto stale = times(r.ctx, x.view(), 2);
  EXPECT_EQ(r.tape.size(), 1);
  r.ctx.reset();
  EXPECT_EQ(r.tape.size(), 0);
  EXPECT_FALSE(r.ctx.gradient(stale));
  EXPECT_TRUE(r.ctx.gradient(x.view()));
}

TEST(Tape, WatchWantsOneShapeWithoutGaps) {
  Tape tape;
  auto x = counting(2, 4), dx = counting(2, 3);
  EXPECT_EQ(error_of([&] { tape.watch(x.view(), dx.view()); }),
            "[tape] value (2, 4) and gradient (2, 3) must have the same shape, without gaps");
  EXPECT_NE(error_of([&] { tape.watch(x.view().slice(1, 0, 3), dx.view()); }), "");
}

TEST(Backward, RefusesWhatItCannotDifferentiate) {
  Recording r;
  const auto foreign = counting(1, 3);
  const Tensor<double, 1> number(Shape{1}), two(Shape{2});
  EXPECT_EQ(error_of([&] { backward(r.ctx, two.view()); }), "[backward] expected a single number, not (2)");
  EXPECT_EQ(error_of([&] { backward(r.ctx, number.view()); }), "[backward] the result was not computed in this context");
  EXPECT_EQ(error_of([&] { backward(r.ctx, foreign.view(), counting(3, 1).view()); }),
            "[backward] result (1, 3) and its gradient (3, 1) must have the same shape, without gaps");
}

TEST(Backward, OnePassPerRecording) {
  Recording r;
  auto x = counting(1, 3), dx = counting(1, 3);
  r.tape.watch(x.view(), dx.view());
  const auto y = times(r.ctx, std::as_const(x).view(), 2);
  backward(r.ctx, y, counting(1, 3).view());
  EXPECT_EQ(error_of([&] { backward(r.ctx, y, counting(1, 3).view()); }),
            "[backward] nothing was recorded since the last backward pass: one pass per recording");
}

TEST(Tape, WatchesMemoryOnceAndWhole) {
  Recording r;
  auto x = counting(4, 4), dx = counting(4, 4), part = counting(2, 4);
  r.tape.watch(x.view().slice(0, 0, 2), part.view());
  EXPECT_EQ(error_of([&] { r.tape.watch(x.view(), dx.view()); }),
            "[tape] a value of (4, 4) overlaps another one that is watched or recorded");
  EXPECT_EQ(error_of([&] { r.ctx.gradient(x.view()); }), "[tape] a view of (4, 4) reaches beyond the memory whose gradient is watched");
  EXPECT_TRUE(r.ctx.gradient(x.view().slice(0, 0, 2)));
}

TEST(Tape, RefusesViewsThatRepeat) {
  Recording r;
  auto x = counting(1, 3), dx = counting(1, 3);
  r.tape.watch(x.view(), dx.view());
  const View<double, 2> repeated(x.data(), Shape<2>{5, 3}, Shape<2>{0, 1});
  EXPECT_EQ(error_of([&] { r.ctx.gradient(repeated); }),
            "[tape] a view of (5, 3) that repeats its elements along axis 0 has no gradient: copy it first");
}
