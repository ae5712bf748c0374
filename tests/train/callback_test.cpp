// What a loss callback may do.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "eigenformer/core/initialize.hpp"
#include "eigenformer/model/encoder_decoder.hpp"
#include "eigenformer/train/trainer.hpp"
#include "support/error.hpp"
#include "support/tensors.hpp"

namespace eigenformer::test {
namespace {

EncoderDecoder<> seeded(double dropout = 0) {
  EncoderDecoder<> model({.source_vocabulary = 9,
                          .target_vocabulary = 9,
                          .encoder_layers = 1,
                          .decoder_layers = 1,
                          .block = {.width = 8, .hidden = 12, .heads = 2, .dropout = dropout}});
  initialize(model, 3);
  return model;
}

const TrainerConfig<EncoderDecoder<>> by_the_hundredth{.learning_rate = ConstantRate{0.01}};

struct Batch {
  Tensor<Id, 2> source = matrix<Id>({{3, 4, 5}, {6, 7, 0}}), target = matrix<Id>({{1, 4}, {1, 5}}),
                expected = matrix<Id>({{4, 2}, {5, 2}});
  std::vector<Index> lengths{3, 2};

  Loss loss(Context& ctx, const EncoderDecoder<>& model) const {
    return op::cross_entropy(ctx, model(ctx, {.source = source, .source_lengths = lengths, .target = target}),
                             expected);
  }
};

// Under AddressSanitizer a view that is read after its memory is gone would end the test; without, the gradient tells.
TEST(TrainerCallback, IdsAndLengthsMayBeItsOwn) {
  const Batch batch;
  Trainer<EncoderDecoder<>> kept(seeded(), by_the_hundredth), gone(seeded(), by_the_hundredth);
  kept.accumulate([&](Context& ctx, const auto& model) { return batch.loss(ctx, model); });
  gone.accumulate([&](Context& ctx, const auto& model) {
    const auto own = std::make_unique<Batch>();
    const Loss loss = own->loss(ctx, model);
    own->source = own->target = own->expected = matrix<Id>({{8, 8, 8}, {8, 8, 8}});
    own->lengths = {1, 1};
    return loss;
  });
  EXPECT_EQ(kept.step().gradient_norm, gone.step().gradient_norm);
}

// With dropout on: the sites that the failed call took are given back.
TEST(TrainerCallback, WhatThrowsLeavesNoTrace) {
  const Batch batch;
  const auto dropped = [] { return seeded(0.3); };
  Trainer<EncoderDecoder<>> undisturbed(dropped(), by_the_hundredth), disturbed(dropped(), by_the_hundredth);
  const auto good = [&](Context& ctx, const auto& model) { return batch.loss(ctx, model); };
  const auto bad = [&](Context& ctx, const auto& model) -> Loss {
    batch.loss(ctx, model);
    fail("test", "thrown on purpose");
  };
  EXPECT_EQ(error_of([&] { disturbed.accumulate(bad); }), "[test] thrown on purpose");
  disturbed.accumulate(good);
  EXPECT_EQ(error_of([&] { disturbed.accumulate(bad); }), "[test] thrown on purpose");
  disturbed.accumulate(good);
  undisturbed.accumulate(good);
  undisturbed.accumulate(good);
  const StepReport want = undisturbed.step(), got = disturbed.step();
  EXPECT_EQ(got.loss, want.loss);
  EXPECT_EQ(got.gradient_norm, want.gradient_norm);
}

// By then earlier micro-batches' gradient is mixed with part of this one's: all is discarded.
TEST(TrainerCallback, ADerivativeThatThrowsDiscardsAll) {
  const Batch batch;
  const auto good = [&](Context& ctx, const auto& model) { return batch.loss(ctx, model); };
  const auto bad = [&](Context& ctx, const auto& model) {
    // Before the model in the forward pass, so after its output layer in the backward one.
    const auto memory = model.encode(ctx, batch.source, batch.lengths);
    const View<float, 3> same = ctx.output<float>(memory.shape());
    std::copy_n(memory.data(), memory.size(), same.data());
    ctx.record(same, [](Context&, ConstView<float, 3>) { fail("test", "thrown on purpose"); });
    return op::cross_entropy(ctx, model.logits(ctx, model.decode(ctx, batch.target, same, batch.lengths)),
                             batch.expected);
  };
  const auto eager = [&](Context& ctx, const auto& model) {
    const Loss loss = batch.loss(ctx, model);
    backward(ctx, loss.sum, 1.0);
    return loss;
  };
  Trainer<EncoderDecoder<>> undisturbed(seeded(), by_the_hundredth), disturbed(seeded(), by_the_hundredth);
  undisturbed.accumulate(good);
  const StepReport want = undisturbed.step();
  disturbed.accumulate(good);
  EXPECT_EQ(error_of([&] { disturbed.accumulate(bad); }), "[test] thrown on purpose");
  const StepReport nothing = disturbed.step();
  EXPECT_TRUE(nothing.skipped);
  EXPECT_EQ(nothing.tokens, 0);
  disturbed.accumulate(good);
  EXPECT_EQ(error_of([&] { disturbed.accumulate(eager); }), "[trainer] the loss called backward() itself");
  EXPECT_EQ(disturbed.step().tokens, 0);
  disturbed.accumulate(good);
  const StepReport got = disturbed.step();
  EXPECT_EQ(got.tokens, 4);
  EXPECT_EQ(got.loss, want.loss);
  EXPECT_EQ(got.gradient_norm, want.gradient_norm);
}

// What is refused changes nothing of what was accumulated.
TEST(TrainerCallback, TheTrainerIsNotToBeCalledFromIt) {
  const Batch batch;
  const auto good = [&](Context& ctx, const auto& model) { return batch.loss(ctx, model); };
  Trainer<EncoderDecoder<>> undisturbed(seeded(), by_the_hundredth), disturbed(seeded(), by_the_hundredth);
  const auto calling = [&](auto&& call) {
    return error_of([&] {
      disturbed.accumulate([&](Context& ctx, const auto& model) {
        call();
        return batch.loss(ctx, model);
      });
    });
  };
  disturbed.accumulate(good);
  EXPECT_EQ(calling([&] { disturbed.step(); }), "[trainer] step() was called from within a callback");
  EXPECT_EQ(calling([&] { disturbed.discard(); }), "[trainer] discard() was called from within a callback");
  EXPECT_EQ(calling([&] { disturbed.accumulate(good); }), "[trainer] accumulate() was called from within a callback");
  undisturbed.accumulate(good);
  const StepReport want = undisturbed.step(), got = disturbed.step();
  EXPECT_EQ(got.tokens, want.tokens);
  EXPECT_EQ(got.gradient_norm, want.gradient_norm);
}

// A teacher within the loss, recorded or not, and an evaluation whose context is reset: the student's gradient is what
// it is alone.
TEST(TrainerCallback, OtherPassesDoNotDisturb) {
  const Batch batch;
  const EncoderDecoder<> teacher = seeded();
  const auto teach = [&](Context& ctx) {
    const auto scratch = ctx.scratch();
    teacher(ctx, {.source = batch.source, .source_lengths = batch.lengths, .target = batch.target});
  };
  Trainer<EncoderDecoder<>> alone(seeded(), by_the_hundredth), taught(seeded(), by_the_hundredth);
  for (int step = 0; step < 3; ++step) {
    alone.accumulate([&](Context& ctx, const auto& model) { return batch.loss(ctx, model); });
    taught.accumulate([&](Context& ctx, const auto& model) {
      Tape* const tape = std::exchange(ctx.tape, nullptr);
      batch.loss(ctx, model);
      if (step == 1) ctx.reset();
      teach(ctx);
      ctx.tape = tape;
      teach(ctx);
      const auto memory = model.encode(ctx, batch.source, batch.lengths);
      teach(ctx);
      const auto hidden = model.decode(ctx, batch.target, memory, batch.lengths);
      ctx.tape = nullptr;
      teach(ctx);
      ctx.tape = tape;
      teach(ctx);
      return op::cross_entropy(ctx, model.logits(ctx, hidden), batch.expected);
    });
    const StepReport want = alone.step(), got = taught.step();
    EXPECT_EQ(got.loss, want.loss);
    EXPECT_EQ(got.gradient_norm, want.gradient_norm);
    EXPECT_GT(got.gradient_norm, 0);
  }
}

TEST(TrainerCallback, ATapeThatIsNotPutBackIsAnError) {
  const Batch batch;
  Trainer<EncoderDecoder<>> trainer(seeded(), by_the_hundredth);
  EXPECT_EQ(error_of([&] {
              trainer.accumulate([&](Context& ctx, const auto& model) {
                ctx.tape = nullptr;
                return batch.loss(ctx, model);
              });
            }),
            "[trainer] the loss did not put the context's tape back");
  trainer.accumulate([&](Context& ctx, const auto& model) { return batch.loss(ctx, model); });
  EXPECT_FALSE(trainer.step().skipped);
}

TEST(TrainerCallback, SettingsThatDestroyWeightsAreErrors) {
  const auto refused = [](TrainerConfig<EncoderDecoder<>> config) {
    return error_of([&] { Trainer<EncoderDecoder<>>(seeded(), std::move(config)); });
  };
  EXPECT_EQ(refused({.learning_rate = ConstantRate{}, .clip = -1.0}),
            "[trainer] clip -1 is invalid: must be in [1e-30, 1e+30)");
  const std::string none =
      "[trainer] no learning rate is given: e.g. .learning_rate = ConstantRate{1e-3}, or WarmUp{.width = 512}";
  EXPECT_EQ(refused({}), none);
  EXPECT_EQ(refused({.learning_rate = nullptr}), none);
  EXPECT_EQ(refused({.optimiser = {.epsilon = 0}, .learning_rate = ConstantRate{}}),
            "[adam] epsilon 0 is invalid: must be in [1e-30, 1e+30)");
  const Batch batch;
  for (const auto& [rate, text] :
       std::vector<std::pair<double, std::string>>{{std::nan(""), "nan"}, {-1e-3, "-0.001"}, {HUGE_VAL, "inf"}}) {
    Trainer<EncoderDecoder<>> trainer(seeded(), {.learning_rate = [rate = rate](Index) { return rate; }});
    trainer.accumulate([&](Context& ctx, const auto& model) { return batch.loss(ctx, model); });
    EXPECT_EQ(error_of([&] { trainer.step(); }), "[adam] learning_rate " + text + " is invalid: must be in [0, 1e+30)");
    expect_identical_models(trainer.model, seeded());
    EXPECT_EQ(trainer.steps(), 0);
  }
}

TEST(TrainerCallback, AnotherModelIsAnError) {
  const Batch batch;
  const EncoderDecoder<> other = seeded();
  Trainer<EncoderDecoder<>> trainer(seeded(), by_the_hundredth);
  const auto error =
      error_of([&] { trainer.accumulate([&](Context& ctx, const auto&) { return batch.loss(ctx, other); }); });
  EXPECT_NE(error.find("[trainer] the loss depends on no weight of this trainer's model"), std::string::npos) << error;
  EXPECT_TRUE(trainer.step().skipped);
  trainer.accumulate([&](Context& ctx, const auto& model) { return batch.loss(ctx, model); });
  EXPECT_FALSE(trainer.step().skipped) << "and it goes on";
}

}  // namespace
}  // namespace eigenformer::test
