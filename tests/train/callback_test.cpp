// What a loss callback may do.
#include <gtest/gtest.h>

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

EncoderDecoder<> seeded() {
  EncoderDecoder<> model({.source_vocabulary = 9,
                          .target_vocabulary = 9,
                          .encoder_layers = 1,
                          .decoder_layers = 1,
                          .block = {.width = 8, .hidden = 12, .heads = 2, .dropout = 0}});
  initialize(model, 3);
  return model;
}

struct Batch {
  Tensor<Id, 2> source = matrix<Id>({{3, 4, 5}, {6, 7, 0}}), target = matrix<Id>({{1, 4}, {1, 5}}), expected = matrix<Id>({{4, 2}, {5, 2}});
  std::vector<Index> lengths{3, 2};

  Loss loss(Context& ctx, const EncoderDecoder<>& model) const {
    return op::cross_entropy(ctx, model(ctx, {.source = source, .source_lengths = lengths, .target = target}), expected);
  }
};

// Under AddressSanitizer a view that is read after its memory is gone would end the test; without, the gradient tells.
TEST(TrainerCallback, IdsAndLengthsMayBeItsOwn) {
  const Batch batch;
  Trainer<EncoderDecoder<>> kept(seeded(), {}), gone(seeded(), {});
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
  const auto dropped = [] {
    EncoderDecoder<> model = seeded();
    model.dropout = 0.3;
    return model;
  };
  Trainer<EncoderDecoder<>> undisturbed(dropped(), {}), disturbed(dropped(), {});
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

TEST(TrainerCallback, SettingsThatDestroyWeightsAreErrors) {
  const auto refused = [](TrainerConfig config) { return error_of([&] { Trainer<EncoderDecoder<>>(seeded(), std::move(config)); }); };
  EXPECT_EQ(refused({.clip = -1.0}), "[trainer] cannot clip at -1");
  EXPECT_EQ(refused({.learning_rate = nullptr}), "[trainer] no learning rate is given");
  EXPECT_NE(refused({.adam = {.epsilon = 0}}), "");
  const Batch batch;
  Trainer<EncoderDecoder<>> trainer(seeded(), {.learning_rate = [](Index) { return std::nan(""); }});
  trainer.accumulate([&](Context& ctx, const auto& model) { return batch.loss(ctx, model); });
  EXPECT_EQ(error_of([&] { trainer.step(); }), "[trainer] the learning rate of step 1 is not finite");
}

TEST(TrainerCallback, AnotherModelIsAnError) {
  const Batch batch;
  const EncoderDecoder<> other = seeded();
  Trainer<EncoderDecoder<>> trainer(seeded(), {});
  const auto error = error_of([&] { trainer.accumulate([&](Context& ctx, const auto&) { return batch.loss(ctx, other); }); });
  EXPECT_NE(error.find("[trainer] the loss depends on no weight of this trainer's model"), std::string::npos) << error;
  EXPECT_TRUE(trainer.step().skipped);
  trainer.accumulate([&](Context& ctx, const auto& model) { return batch.loss(ctx, model); });
  EXPECT_FALSE(trainer.step().skipped) << "and it goes on";
}

}  // namespace
}  // namespace eigenformer::test
