// Steady state asks the system for nothing: neither inference nor a training step.
#include <gtest/gtest.h>

#include <utility>

#include "eigenformer/core/initialize.hpp"
#include "eigenformer/model/decoders.hpp"
#include "eigenformer/model/encoder_decoder.hpp"
#include "eigenformer/train/trainer.hpp"

#define EIGENFORMER_COUNT_ALLOCATIONS
#include "support/allocations.hpp"

using namespace eigenformer;
using test::allocations;

namespace {

EncoderDecoder<> small_model() {
  EncoderDecoder<> model({.source_vocabulary = 50,
                          .target_vocabulary = 50,
                          .encoder_layers = 2,
                          .decoder_layers = 2,
                          .block = {.width = 32, .hidden = 64, .heads = 4, .dropout = 0.1}});
  initialize(model, 1);
  return model;
}

}  // namespace

TEST(Allocations, NoneInInference) {
  const auto model = small_model();
  const Tensor<Id, 2> source(Shape{3, 20}), target(Shape{3, 17});
  for (const int threads : {1, 2}) {
    Context ctx{Threads(threads)};
    const auto run = [&] {
      ctx.reset();
      model(ctx, {.source = source, .target = target});
    };
    run(), run();
    const std::size_t before = allocations;
    for (int i = 0; i < 5; ++i) run();
    EXPECT_EQ(allocations, before) << threads << " threads";
  }
}

TEST(Allocations, NoneInARotaryModel) {
  Llama<float> model({.vocabulary = 50, .layers = 2, .block = {.width = 32, .hidden = 64, .heads = 4, .dropout = 0}});
  initialize(model, 1);
  const Tensor<Id, 2> ids(Shape{3, 20});
  Context ctx;
  const auto run = [&] {
    ctx.reset();
    model(ctx, {.ids = ids});
  };
  run(), run();
  const std::size_t before = allocations;
  for (int i = 0; i < 5; ++i) run();
  EXPECT_EQ(allocations, before);
}

TEST(Allocations, NoneInATrainingStep) {
  for (const int threads : {1, 2}) {
    Trainer trainer(small_model(), {.learning_rate = WarmUp{.width = 32}, .clip = 1.0}, Threads(threads));
    const Tensor<Id, 2> source(Shape{3, 20}), target(Shape{3, 17}), expected(Shape{3, 17});
    const auto step = [&] {
      for (int micro_batch = 0; micro_batch < 2; ++micro_batch)
        trainer.accumulate([&](Context& ctx, const EncoderDecoder<>& m) {
          return op::cross_entropy(ctx, m(ctx, {.source = source, .target = target}), expected, {.smoothing = 0.1});
        });
      trainer.step();
    };
    step(), step();
    const std::size_t before = allocations;
    for (int i = 0; i < 5; ++i) step();
    EXPECT_EQ(allocations, before) << threads << " threads";
  }
}
