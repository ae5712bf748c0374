#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
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

ConstView<double, 1> sum(Context& ctx, ConstView<double, 1> a, ConstView<double, 1> b) {
  const View<double, 1> y = ctx.output<double>(Shape{1});
  y[0] = a[0] + b[0];
  ctx.record(y, [=](Context& back, ConstView<double, 1> dy) {
    for (const auto& part : {a, b}) {
      const auto dpart = back.gradient(part);
      dpart.view[0] = (dpart.add ? dpart.view[0] : 0) + dy[0];
    }
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
  backward(r.ctx, sum(r.ctx, ya, yb));
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
  EXPECT_EQ(elements(dx), (std::vector<double>{0, 10, 20, 0, 0, 30, 40, 0}))
      << "what nobody used has gradient 0, not garbage";
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
  r.ctx.record(r.ctx.output<double>(Shape{1}),
               [](Context&, ConstView<double, 1>) { FAIL() << "nothing depends on this"; });
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
  EXPECT_EQ(error_of([&] { r.ctx.gradient(stale); }),
            "[tape] a value of (1, 3) lay in memory that has been released since: it has no gradient");
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
  EXPECT_EQ(error_of([&] { backward(r.ctx, number.view()); }),
            "[backward] the result was not computed in this context, or has been released since");
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

// A second loss of something that the first has differentiated already.
TEST(Backward, OncePerValue) {
  Recording r;
  auto x = counting(1, 3), dx = counting(1, 3);
  const auto weights = counting(1, 3);
  r.tape.watch(x.view(), dx.view());
  const auto trunk = times(r.ctx, std::as_const(x).view(), 2);
  backward(r.ctx, weighted_sum(r.ctx, trunk, weights));
  const auto second = weighted_sum(r.ctx, times(r.ctx, trunk, 3), weights);
  EXPECT_EQ(error_of([&] { backward(r.ctx, second); }),
            "[tape] how a value of (1, 3) was computed is no longer known, since a backward pass or the end of a "
            "scratch scope: compute it again");
}

// By hand: L = Σ w·(k·x), so dL/dx = k·w.
TEST(Backward, MicroBatchesInScratchScopes) {
  Recording r;
  auto x = counting(1, 3), dx = Tensor<double, 2>(Shape{1, 3});
  const auto weights = counting(1, 3);
  r.tape.watch(std::as_const(x).view(), dx.view());
  for (int k = 1; k <= 3; ++k) {
    const auto scope = r.ctx.scratch();
    for (int waste = 0; waste < k; ++waste) times(r.ctx, weights.view(), waste);  // other addresses each time
    backward(r.ctx, weighted_sum(r.ctx, times(r.ctx, std::as_const(x).view(), k), weights));
  }
  EXPECT_EQ(elements(dx), (std::vector<double>{6, 12, 18}));
  EXPECT_EQ(r.tape.size(), 0);
}

// Values k·x in scopes that come and go, with and without the tape: what is alive in the end has the gradient k·w.
TEST(Backward, IsRightWhateverWasReleased) {
  std::uint32_t state = 1;
  const auto any = [&](std::uint32_t below) { return (state = state * 1664525u + 1013904223u) / 65536u % below; };
  const auto x = counting(3, 40), weights = counting(3, 40);
  for (int round = 0; round < 200; ++round) {
    Recording r;
    Tensor<double, 2> dx(x.shape());
    r.tape.watch(x.view(), dx.view());
    struct Value {
      ConstView<double, 2> view;
      double factor;
    };
    std::vector<Value> values{{x.view(), 1}};
    const std::function<void(int)> scope = [&](int depth) {
      const std::size_t outer = values.size();
      for (std::uint32_t steps = 1 + any(5); steps > 0; --steps) {
        const Value from = values[any(static_cast<std::uint32_t>(values.size()))];
        switch (any(6)) {
          case 0:
          case 1: {
            const double factor = 1 + any(2);
            values.push_back({times(r.ctx, from.view, factor), factor * from.factor});
            break;
          }
          case 2:
            if (depth < 5) {
              const auto scratch = r.ctx.scratch();
              scope(depth + 1);
            }
            break;
          case 3: {  // a teacher, or an evaluation
            Tape* const tape = std::exchange(r.ctx.tape, nullptr);
            const auto scratch = r.ctx.scratch();
            scope(5);
            r.ctx.tape = tape;
            break;
          }
          case 4: r.ctx.arena.allocate<char>(1 + any(100000)); break;
          default:
            if (depth == 0 && any(3) == 0) {  // everything anew
              if (any(2) == 0) r.ctx.tape = nullptr;
              r.ctx.reset();
              r.ctx.tape = &r.tape;
              values = {{x.view(), 1}};
            }
        }
      }
      if (depth > 0) values.resize(outer);
    };
    scope(0);
    const Value one = values[any(static_cast<std::uint32_t>(values.size()))], other = values.back();
    backward(r.ctx, sum(r.ctx, weighted_sum(r.ctx, one.view, weights), weighted_sum(r.ctx, other.view, weights)));
    for (Index i = 0; i < x.size(); ++i)
      ASSERT_EQ(dx.data()[i], (one.factor + other.factor) * weights.data()[i])
          << "round " << round << ", element " << i;
  }
}

TEST(Tape, SetAsideItForgetsWhatIsReset) {
  Recording r;
  auto x = counting(1, 3), dx = Tensor<double, 2>(Shape{1, 3});
  const auto weights = counting(1, 3);
  r.tape.watch(std::as_const(x).view(), dx.view());
  times(r.ctx, std::as_const(x).view(), 7);
  r.ctx.tape = nullptr;
  r.ctx.reset();
  EXPECT_EQ(r.tape.size(), 0);
  times(r.ctx, std::as_const(x).view(), 9);
  r.ctx.tape = &r.tape;
  backward(r.ctx, weighted_sum(r.ctx, times(r.ctx, std::as_const(x).view(), 2), weights));
  EXPECT_EQ(elements(dx), (std::vector<double>{2, 4, 6}));
}

TEST(Tape, WhatHasBeenReleasedHasNoGradient) {
  Recording r;
  const auto x = counting(1, 3), weights = counting(1, 3);
  ConstView<double, 2> gone;
  ConstView<double, 1> loss;
  {
    const auto scratch = r.ctx.scratch();
    gone = times(r.ctx, x.view(), 2);
    loss = weighted_sum(r.ctx, gone, weights);
  }
  EXPECT_EQ(r.tape.size(), 0);
  EXPECT_EQ(error_of([&] { r.ctx.gradient(gone); }),
            "[tape] a value of (1, 3) lay in memory that has been released since: it has no gradient");
  EXPECT_EQ(error_of([&] { backward(r.ctx, loss); }),
            "[backward] the result was not computed in this context, or has been released since");
}

// The result outlives the scope, its derivative does not.
TEST(Tape, RecordedInAScopeAnOuterResultIsNotDifferentiated) {
  Recording r;
  const auto x = counting(1, 3), weights = counting(1, 3);
  Tensor<double, 2> dx(x.shape());
  r.tape.watch(x.view(), dx.view());
  const View<double, 2> y = r.ctx.output<double>(Shape{1, 3});
  {
    const auto scratch = r.ctx.scratch();
    y.matrix() = times(r.ctx, x.view(), 2).matrix();
    r.ctx.record(y, [](Context&, ConstView<double, 2>) {});
  }
  const auto loss = weighted_sum(r.ctx, y, weights);
  EXPECT_EQ(error_of([&] { backward(r.ctx, loss); }),
            "[tape] how a value of (1, 3) was computed is no longer known, since a backward pass or the end of a "
            "scratch scope: compute it again");
}

TEST(Tape, DoesNotOutliveItsMemory) {
  Tape tape;
  auto x = counting(1, 3), dx = Tensor<double, 2>(Shape{1, 3});
  const auto weights = counting(1, 3);
  tape.watch(std::as_const(x).view(), dx.view());
  {
    Context ctx;
    ctx.tape = &tape;
    times(ctx, std::as_const(x).view(), 2);
    EXPECT_EQ(tape.size(), 1);
    Context other;
    other.tape = &tape;
    EXPECT_EQ(error_of([&] { times(other, std::as_const(x).view(), 2); }),
              "[tape] it has recorded in another context: reset() that first");
    ctx.reset();
    times(other, std::as_const(x).view(), 2);
    EXPECT_EQ(tape.size(), 1);
  }
  EXPECT_EQ(tape.size(), 0);
  Context ctx;
  ctx.tape = &tape;
  backward(ctx, weighted_sum(ctx, times(ctx, std::as_const(x).view(), 2), weights));
  EXPECT_EQ(elements(dx), (std::vector<double>{2, 4, 6}));
}

TEST(Tape, WatchedMemoryOfTheContextIsForgottenWithIt) {
  Recording r;
  Tensor<double, 2> dx(Shape{1, 3});
  const auto weights = counting(1, 3);
  times(r.ctx, weights.view(), 1);
  {
    const auto scratch = r.ctx.scratch();
    r.tape.watch(r.ctx.arena.allocate<double>(Shape{1, 3}), dx.view());
  }
  backward(r.ctx, weighted_sum(r.ctx, times(r.ctx, weights.view(), 1), weights));
  EXPECT_EQ(elements(dx), (std::vector<double>{0, 0, 0})) << "somebody else's memory now";
}

// Gradients are the tape's own: they do not end with a scope within a derivative.
TEST(Backward, ADerivativeMayAskWithinAScratchScope) {
  Recording r;
  const auto x = counting(1, 3), weights = counting(1, 3);
  Tensor<double, 2> dx(x.shape());
  r.tape.watch(x.view(), dx.view());
  const auto middle = times(r.ctx, x.view(), 5);
  const View<double, 1> y = r.ctx.output<double>(Shape{1});
  y[0] = 0;
  r.ctx.record(y, [=, w = weights.view()](Context& back, ConstView<double, 1> dy) {
    {
      const auto scratch = back.scratch();
      const auto dmiddle = back.gradient(middle);
      dmiddle.put(dmiddle.view.matrix(), dy[0] * w.matrix());
    }
    std::fill_n(back.arena.allocate<double>(Shape{1000}).data(), 1000, 1e9);
  });
  backward(r.ctx, ConstView<double, 1>(y));
  EXPECT_EQ(elements(dx), (std::vector<double>{5, 10, 15}));
}

// y = Σ a∘x + Σ b∘x' with x' the same memory under another shape; the derivative writes one row of each in turn.
TEST(Backward, TwoShapesOfOneBufferAddUp) {
  for (const bool watched : {false, true}) {
    Recording r;
    const auto x = counting(2, 3), a = counting(2, 3), b = counting(3, 2);
    Tensor<double, 2> dx(x.shape());
    r.tape.watch(x.view(), dx.view(), Tape::Start::overwrite);
    const auto wide = watched ? x.view() : times(r.ctx, x.view(), 1), tall = wide.reshape(Shape{3, 2});
    const View<double, 1> y = r.ctx.output<double>(Shape{1});
    y[0] = 0;
    r.ctx.record(y, [=, a = a.view(), b = b.view()](Context& back, ConstView<double, 1>) {
      const auto dwide = back.gradient(wide), dtall = back.gradient(tall);
      for (Index i = 2; i >= 0; --i) {
        if (i < 2) dwide.put(dwide.view.matrix().row(i), a.matrix().row(i));
        dtall.put(dtall.view.matrix().row(i), b.matrix().row(i));
      }
    });
    backward(r.ctx, ConstView<double, 1>(y));
    EXPECT_EQ(elements(dx), (std::vector<double>{2, 4, 6, 8, 10, 12}));
  }
}

TEST(Tape, WatchesMemoryOnceAndWhole) {
  Recording r;
  auto x = counting(4, 4), dx = counting(4, 4), part = counting(2, 4);
  r.tape.watch(x.view().slice(0, 0, 2), part.view());
  EXPECT_EQ(error_of([&] { r.tape.watch(x.view(), dx.view()); }),
            "[tape] a value of (4, 4) overlaps another one that is watched or recorded");
  EXPECT_EQ(error_of([&] { r.ctx.gradient(x.view()); }),
            "[tape] a view of (4, 4) reaches beyond the memory whose gradient is watched");
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
