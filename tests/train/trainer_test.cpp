#include "eigenformer/train/trainer.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "eigenformer/layer/embedding.hpp"
#include "eigenformer/train/sgd.hpp"

using namespace eigenformer;

namespace {

constexpr Id ignore = -100;

/// A model whose logits are rows of its table, so that losses can be written down: the row of token 0 loses 4 against
/// target 0, the row of token 1 loses 1.
using Table = Embedding<double>;

Table table() {
  Table model({.vocabulary = 3, .width = 2, .scaled = false});
  model.weight(0, 1) = std::log(std::exp(4.0) - 1);
  model.weight(1, 1) = std::log(std::exp(1.0) - 1);
  model.weight(2, 0) = 0.5;
  return model;
}

/// Tokens against targets.
struct Batch {
  std::vector<Id> tokens, targets;

  auto loss() const {
    return [this](Context& ctx, const Table& model) {
      const auto shape = Shape{Index{1}, static_cast<Index>(tokens.size())};
      return op::cross_entropy(ctx, model(ctx, ConstView<Id, 2>(tokens.data(), shape)),
                               ConstView<Id, 2>(targets.data(), shape), {.ignore = ignore});
    };
  }
};

const Batch one{{0}, {0}}, three{{1, 1, 1}, {0, 0, 0}}, all{{0, 1, 1, 1}, {0, 0, 0, 0}},
    ignored{{2, 0}, {ignore, ignore}};

TrainerConfig<Table> config(std::optional<double> clip = {}) {
  return {.learning_rate = ConstantRate{0.1}, .clip = clip};
}

std::vector<double> numbers(const Table& model) {
  return {model.weight.data(), model.weight.data() + model.weight.size()};
}

void expect_near(const Table& a, const Table& b) {
  for (std::size_t i = 0; i < 6; ++i) EXPECT_NEAR(numbers(a)[i], numbers(b)[i], 1e-12) << i;
}

}  // namespace

TEST(Trainer, MicroBatchesAreOneBatch) {
  Trainer parts(table(), config()), whole(table(), config());
  parts.accumulate(one.loss());
  parts.accumulate(three.loss());
  whole.accumulate(all.loss());
  expect_near(parts.gradient(), whole.gradient());
  const auto report = parts.step(), other = whole.step();
  EXPECT_NEAR(report.loss, 1.75, 1e-12) << "not 2.5, the mean of the means";
  EXPECT_NEAR(other.loss, 1.75, 1e-12);
  EXPECT_EQ(report.tokens, 4);
  EXPECT_NEAR(report.gradient_norm, other.gradient_norm, 1e-12);
  expect_near(parts.model, whole.model);
  expect_near(parts.optimiser.second_moment, whole.optimiser.second_moment);
}

// By hand: d/dlogits of the mean is (p − q)/4 per token; e⁻⁴ and e⁻¹ are the probabilities of the targets.
TEST(Trainer, TheGradientIsOfTheMean) {
  Trainer trainer(table(), config());
  trainer.accumulate(one.loss());
  trainer.accumulate(three.loss());
  const double a = (1 - std::exp(-4.0)) / 4, b = 3 * (1 - std::exp(-1.0)) / 4;
  EXPECT_NEAR(trainer.step().gradient_norm, std::sqrt(2 * a * a + 2 * b * b), 1e-12);
}

TEST(Trainer, AnIgnoredMicroBatchChangesNothing) {
  Trainer with(table(), config()), without(table(), config());
  with.accumulate(ignored.loss());
  with.accumulate(one.loss());
  with.accumulate(ignored.loss());
  with.accumulate(three.loss());
  without.accumulate(one.loss());
  without.accumulate(three.loss());
  const auto report = with.step();
  without.step();
  EXPECT_EQ(report.tokens, 4);
  EXPECT_EQ(numbers(with.model), numbers(without.model));
}

TEST(Trainer, APartialWindowStepsOnWhatItHas) {
  Trainer trainer(table(), config()), alone(table(), config());
  trainer.accumulate(one.loss());
  trainer.accumulate(three.loss());
  trainer.step();
  alone.model = trainer.model, alone.optimiser = trainer.optimiser;
  alone.counters = trainer.counters;
  trainer.accumulate(three.loss());  // the other half never comes
  alone.accumulate(three.loss());
  const auto report = trainer.step();
  EXPECT_EQ(report.step, 2);
  EXPECT_EQ(report.tokens, 3);
  EXPECT_FALSE(report.skipped);
  alone.step();
  EXPECT_EQ(numbers(trainer.model), numbers(alone.model));
}

TEST(Trainer, NoValidTargetNoStep) {
  Trainer trainer(table(), config());
  trainer.accumulate(all.loss());
  trainer.step();
  const auto model = numbers(trainer.model), first = numbers(trainer.optimiser.first_moment),
             second = numbers(trainer.optimiser.second_moment);
  const Batch five{{0, 1, 2, 1, 0}, std::vector<Id>(5, ignore)};
  trainer.accumulate(five.loss());
  const auto report = trainer.step();
  EXPECT_TRUE(report.skipped);
  EXPECT_EQ(report.loss, 0);
  EXPECT_EQ(report.tokens, 0);
  EXPECT_EQ(report.step, 1);
  EXPECT_EQ(trainer.steps(), 1);
  EXPECT_EQ(numbers(trainer.model), model);
  EXPECT_EQ(numbers(trainer.optimiser.first_moment), first);
  EXPECT_EQ(numbers(trainer.optimiser.second_moment), second);
  EXPECT_TRUE(trainer.step().skipped) << "nothing accumulated at all";
}

TEST(Trainer, AGradientThatIsNotFiniteIsSkipped) {
  for (const double bad : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    Trainer trainer(table(), config(1.0)), good(table(), config(1.0));
    for (auto* each : {&trainer, &good}) {
      each->accumulate(all.loss());
      each->step();
    }
    const auto model = numbers(trainer.model), first = numbers(trainer.optimiser.first_moment),
               second = numbers(trainer.optimiser.second_moment);
    const auto poisoned = [bad](Context& ctx, const Table& on) {
      const View<double, 1> sum = ctx.output<double>(Shape{1});
      sum[0] = 1;
      ctx.record(sum, [&on, bad](Context& back, ConstView<double, 1>) {
        if (const auto place = back.gradient(on.weight.view())) place.view(1, 1) += bad;
      });
      return Loss{sum, 1};
    };
    trainer.accumulate(poisoned);
    const auto report = trainer.step();
    EXPECT_TRUE(report.skipped);
    EXPECT_FALSE(std::isfinite(report.gradient_norm));
    EXPECT_EQ(report.step, 1);
    EXPECT_EQ(numbers(trainer.model), model);
    EXPECT_EQ(numbers(trainer.optimiser.first_moment), first);
    EXPECT_EQ(numbers(trainer.optimiser.second_moment), second);
    for (auto* each : {&trainer, &good}) {  // and is forgotten
      each->accumulate(all.loss());
      EXPECT_FALSE(each->step().skipped);
    }
    EXPECT_EQ(numbers(trainer.model), numbers(good.model));
  }
}

// Finite, but its square is not: Adam could not take it.
TEST(Trainer, AGradientThatCannotBeSquaredIsSkipped) {
  for (const std::optional<double> clip : {std::optional<double>(), std::optional<double>(1.0)}) {
    Trainer trainer(table(), config(clip));
    trainer.accumulate([&](Context& ctx, const Table& model) {
      Loss loss = all.loss()(ctx, model);
      const View<double, 1> scaled = ctx.output<double>(Shape{1});
      scaled[0] = loss.sum[0] * 1e25;
      ctx.record(scaled, [sum = loss.sum](Context& back, ConstView<double, 1> d) {
        const auto to = back.gradient(sum);
        to.view[0] = (to.add ? to.view[0] : 0) + 1e25 * d[0];
      });
      return Loss{scaled, loss.tokens};
    });
    const StepReport report = trainer.step();
    EXPECT_EQ(report.skipped, !clip) << "clipped it is harmless";
    for (const double number : numbers(trainer.model)) EXPECT_TRUE(std::isfinite(number));
  }
}

TEST(Trainer, RefusesToBeCalledFromItsOwnLoss) {
  Trainer trainer(table(), config());
  EXPECT_THROW(trainer.accumulate([&](Context& ctx, const Table& model) {
    trainer.accumulate(one.loss());
    return one.loss()(ctx, model);
  }),
               Error);
  trainer.accumulate(all.loss());
  EXPECT_FALSE(trainer.step().skipped);
}

TEST(Trainer, ClipsTheMeanGradient) {
  TrainerConfig<Table> clipped = config(0.001), free = config();
  clipped.optimiser.epsilon = free.optimiser.epsilon = 1e6;  // so that steps are proportional to gradients
  Trainer a(table(), clipped), b(table(), free);
  a.accumulate(all.loss());
  b.accumulate(all.loss());
  const auto report = a.step();
  b.step();
  EXPECT_GT(report.gradient_norm, 0.1) << "before clipping";
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_NEAR(numbers(a.optimiser.first_moment)[i],
                numbers(b.optimiser.first_moment)[i] * 0.001 / report.gradient_norm, 1e-12);
}

// Another optimiser: the weights go down by rate times the mean gradient, which is (p − q)/4 of each token.
TEST(Trainer, TakesAnotherOptimiser) {
  Trainer<Table, Sgd<Table>> trainer(table(), {.learning_rate = ConstantRate{0.5}});
  trainer.accumulate(all.loss());
  trainer.step();
  const double a = (1 - std::exp(-4.0)) / 4, b = 3 * (1 - std::exp(-1.0)) / 4;
  const auto before = numbers(table()), after = numbers(trainer.model);
  const std::vector<double> gradient{-a, a, -b, b, 0, 0};
  for (std::size_t i = 0; i < 6; ++i) EXPECT_NEAR(after[i], before[i] - 0.5 * gradient[i], 1e-12) << i;
}

// What two processes do: each has part of the batch, and adds the sums of the other to its own.
TEST(TrainerBeforeStep, SumsOfSeveralMakeOneBatch) {
  Accumulated<Table> of_other{zeros_like(table())};
  TrainerConfig<Table> adding = config(), lending = config();
  lending.before_step = [&](Context&, Accumulated<Table>& sums) { of_other = sums; };
  adding.before_step = [&](Context& ctx, Accumulated<Table>& sums) {
    EXPECT_TRUE(!ctx.tape && !ctx.random);
    walk([](const Leaf&, auto& mine, const auto& others) { mine.matrix() += others.matrix(); }, sums.gradient,
         std::as_const(of_other.gradient));
    sums.loss += of_other.loss;
    sums.tokens += of_other.tokens;
  };
  Trainer lender(table(), lending), adder(table(), adding), whole(table(), config());
  for (const Batch* const mine : {&one, &ignored}) {  // the second time there is nothing but the sums of the other
    lender.accumulate(three.loss());
    lender.step();
    adder.accumulate(mine->loss());
    whole.accumulate(three.loss());
    whole.accumulate(mine->loss());
    const StepReport got = adder.step(), want = whole.step();
    EXPECT_EQ(got.tokens, want.tokens);
    EXPECT_NEAR(got.loss, want.loss, 1e-12);
    EXPECT_NEAR(got.gradient_norm, want.gradient_norm, 1e-12);
    expect_near(adder.model, whole.model);
    lender.model = adder.model = whole.model;
  }
}

// Powers of two cancel without rounding.
TEST(TrainerBeforeStep, TakesAScalingOfTheLossAway) {
  TrainerConfig<Table> scaling = config(0.1);
  scaling.before_step = [](Context&, Accumulated<Table>& sums) {
    walk([](const Leaf&, auto& gradient) { gradient.matrix() /= 1024; }, sums.gradient);
    sums.loss /= 1024;
  };
  Trainer scaled(table(), scaling), plain(table(), config(0.1));
  scaled.accumulate([](Context& ctx, const Table& model) {
    const Loss loss = all.loss()(ctx, model);
    const View<double, 1> sum = ctx.output<double>(Shape{1});
    sum[0] = 1024 * loss.sum[0];
    ctx.record(sum, [from = loss.sum](Context& back, ConstView<double, 1> d) {
      const auto to = back.gradient(from);
      to.view[0] = (to.add ? to.view[0] : 0) + 1024 * d[0];
    });
    return Loss{sum, loss.tokens};
  });
  plain.accumulate(all.loss());
  const StepReport got = scaled.step(), want = plain.step();
  EXPECT_EQ(got.loss, want.loss);
  EXPECT_EQ(got.gradient_norm, want.gradient_norm);
  EXPECT_EQ(numbers(scaled.model), numbers(plain.model));
}

TEST(TrainerBeforeStep, WhatThrowsDiscardsWhatWasAccumulated) {
  bool broken = true;
  TrainerConfig<Table> checked = config();
  checked.before_step = [&](Context&, Accumulated<Table>& sums) {
    if (!broken) return;
    sums.gradient.weight(0, 0) = 7;
    throw std::runtime_error("network");
  };
  Trainer trainer(table(), checked), other(table(), config());
  trainer.accumulate(three.loss());
  EXPECT_THROW(trainer.step(), std::runtime_error);
  EXPECT_EQ(trainer.steps(), 0);
  broken = false;
  trainer.accumulate(one.loss());
  other.accumulate(one.loss());
  EXPECT_EQ(trainer.step().tokens, 1);
  other.step();
  EXPECT_EQ(numbers(trainer.model), numbers(other.model));
}

TEST(Trainer, AnExceptionLeavesItAsItWas) {
  Trainer trainer(table(), config()), other(table(), config());
  trainer.accumulate(one.loss());
  other.accumulate(one.loss());
  const auto broken = [](Context& ctx, const Table& model) -> Loss {
    three.loss()(ctx, model);
    throw std::runtime_error("data");
  };
  EXPECT_THROW(trainer.accumulate(broken), std::runtime_error);
  trainer.accumulate(three.loss());
  other.accumulate(three.loss());
  EXPECT_EQ(trainer.step().tokens, 4);
  other.step();
  EXPECT_EQ(numbers(trainer.model), numbers(other.model));
}
