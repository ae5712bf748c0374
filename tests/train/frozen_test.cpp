// Parts of a model that training leaves as they are.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "eigenformer/core/initialize.hpp"
#include "eigenformer/model/encoder_decoder.hpp"
#include "eigenformer/train/trainer.hpp"
#include "support/error.hpp"
#include "support/tensors.hpp"

namespace eigenformer::test {
namespace {

using FrozenModel = EncoderDecoder<>;

FrozenModel model_with_head() {
  FrozenModel model({.source_vocabulary = 9,
                     .target_vocabulary = 9,
                     .encoder_layers = 2,
                     .decoder_layers = 1,
                     .block = {.width = 8, .heads = 2},
                     .sharing = Sharing::none});
  initialize(model, 3);
  return model;
}

const auto some_ids = random_ids(Shape{2, 3}, 0, 9, 1), some_targets = random_ids(Shape{2, 3}, 0, 9, 2);

Loss loss_on_some(Context& ctx, const FrozenModel& model) {
  return op::cross_entropy(ctx, model(ctx, {.source = some_ids, .target = some_ids}), some_targets.view());
}

TrainerConfig<FrozenModel> with_decay(std::vector<std::string> trained, std::vector<std::string> frozen) {
  return {.optimiser = {.decay = 0.1},
          .learning_rate = ConstantRate{0.01},
          .trained = std::move(trained),
          .frozen = std::move(frozen)};
}

/// One step of a whole model and one of a part: the part takes the same step, everything else none, and counts in no
/// norm.
void expect_only(const std::vector<std::string>& trained, const std::vector<std::string>& frozen, auto&& trains) {
  Trainer whole(model_with_head(), with_decay({}, {})), part(model_with_head(), with_decay(trained, frozen));
  const FrozenModel before = model_with_head();
  whole.accumulate(loss_on_some);
  part.accumulate(loss_on_some);
  double squares = 0;
  walk(
      [&](const std::string& name, const Leaf&, const auto& all, const auto& some) {
        if (trains(name)) {
          EXPECT_TRUE(identical(all, some)) << name;
          for (Index i = 0; i < all.size(); ++i) squares += std::pow(static_cast<double>(all.data()[i]), 2);
        } else {
          EXPECT_EQ(magnitude(some), 0) << name;
        }
      },
      whole.gradient(), part.gradient());
  const StepReport report = part.step();
  EXPECT_LT(report.gradient_norm, whole.step().gradient_norm);
  EXPECT_NEAR(report.gradient_norm, std::sqrt(squares) / 6, 1e-12 * squares) << "6 tokens";
  Index stepped = 0;
  walk(
      [&](const std::string& name, const Leaf&, const auto& now, const auto& all, const auto& then,
          const auto& moment) {
        stepped += trains(name);
        EXPECT_TRUE(identical(now, trains(name) ? all : then)) << name;
        if (!trains(name)) {
          EXPECT_EQ(magnitude(moment), 0) << name;
        }
      },
      std::as_const(part.model), std::as_const(whole.model), before, std::as_const(part.optimiser.second_moment));
  EXPECT_GT(stepped, 0);
}

TEST(FrozenParts, StayAsTheyAre) {
  expect_only({}, {"embedding", "encoder"},
              [](const std::string& name) { return !name.starts_with("embedding.") && !name.starts_with("encoder."); });
  expect_only({}, {"encoder.blocks.1", "head.weight"},
              [](const std::string& name) { return !name.starts_with("encoder.blocks.1.") && name != "head.weight"; });
}

TEST(FrozenParts, AllButTheTrained) {
  expect_only({"head"}, {}, [](const std::string& name) { return name == "head.weight"; });
  expect_only({"decoder", "head"}, {"decoder.blocks.0.cross_attention"}, [](const std::string& name) {
    return (name.starts_with("decoder.") && !name.starts_with("decoder.blocks.0.cross_attention.")) ||
           name == "head.weight";
  });
}

TEST(FrozenParts, AreNamedAsTheModelNamesThem) {
  const auto refused = [](const TrainerConfig<FrozenModel>& config) {
    return error_of([&] { Trainer<FrozenModel>(model_with_head(), config); });
  };
  EXPECT_EQ(refused(with_decay({}, {"encode"})),
            "[trainer] there is no weight, nor a part with weights, of the name \"encode\"; its parts are embedding, "
            "target_embedding, encoder, decoder, head");
  EXPECT_EQ(refused(with_decay({"heads"}, {})),
            "[trainer] there is no weight, nor a part with weights, of the name \"heads\"; its parts are embedding, "
            "target_embedding, encoder, decoder, head");
  EXPECT_EQ(refused(with_decay({"head"}, {"head.weight"})), "[trainer] all weights are frozen");
}

// Without a trainer: a tape that watches the head alone.
TEST(FrozenParts, ATapeWatchesWhatItIsTold) {
  const FrozenModel model = model_with_head();
  FrozenModel gradient = zeros_like(model);
  Linear<float> of_head = zeros_like(*model.head);
  const auto run = [&](auto&& watch) {
    Context ctx;
    Tape tape;
    ctx.tape = &tape;
    watch(tape);
    backward(ctx, loss_on_some(ctx, model).sum, 1.0);
  };
  run([&](Tape& tape) { tape.watch(model, gradient); });
  run([&](Tape& tape) { tape.watch(*model.head, of_head); });
  EXPECT_GT(magnitude(of_head.weight), 0);
  EXPECT_TRUE(identical(of_head.weight, gradient.head->weight));
}

// It would learn nothing for ever: the gradient of every product of zeros is zero.
TEST(Trainer, WantsAnInitializedModel) {
  Trainer trainer(FrozenModel(zeros_like(model_with_head())), with_decay({}, {}));
  EXPECT_EQ(error_of([&] { trainer.accumulate(loss_on_some); }),
            "[trainer] all weights are zero: call initialize(model, seed), or load them, before the model is used");
  trainer.model = model_with_head();  // as loading does
  trainer.accumulate(loss_on_some);
  EXPECT_FALSE(trainer.step().skipped);
}

}  // namespace
}  // namespace eigenformer::test
