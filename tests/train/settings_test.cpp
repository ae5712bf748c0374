// Every number that training is given has a range.
#include "support/settings.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "eigenformer/train/sgd.hpp"
#include "eigenformer/train/trainer.hpp"
#include "support/bag.hpp"

namespace eigenformer::test {
namespace {

const auto first_rate = [](const auto& schedule) { schedule(1); };

TEST(TrainSettings, OfSchedules) {
  const auto set = [](auto field) { return [field](auto& schedule, auto value) { schedule.*field = value; }; };
  const std::vector<Index> beyond_the_end{Bad::lowest, -1, 11, Bad::most};
  expect_refused("warm_up", "width", WarmUp{.width = 8}, Bad::count(), set(&WarmUp::width), first_rate);
  expect_refused("warm_up", "warm_up", WarmUp{.width = 8}, Bad::distance(), set(&WarmUp::warm_up), first_rate);
  expect_refused("warm_up", "factor", WarmUp{.width = 8}, Bad::size(), set(&WarmUp::factor), first_rate);
  expect_refused("constant_rate", "rate", ConstantRate{}, Bad::size(), set(&ConstantRate::rate), first_rate);
  expect_refused("constant_rate", "warm_up", ConstantRate{}, Bad::distance(), set(&ConstantRate::warm_up), first_rate);
  expect_refused("linear_decay", "rate", LinearDecay{.steps = 10}, Bad::size(), set(&LinearDecay::rate), first_rate);
  expect_refused("linear_decay", "end", LinearDecay{.steps = 10}, Bad::size(), set(&LinearDecay::end), first_rate);
  expect_refused("linear_decay", "steps", LinearDecay{.steps = 10}, std::vector<Index>{Bad::lowest, -1, 0},
                 set(&LinearDecay::steps), first_rate);
  expect_refused("linear_decay", "warm_up", LinearDecay{.steps = 10}, beyond_the_end, set(&LinearDecay::warm_up),
                 first_rate);
  expect_refused("cosine_decay", "rate", CosineDecay{.steps = 10}, Bad::size(), set(&CosineDecay::rate), first_rate);
  expect_refused("cosine_decay", "end", CosineDecay{.steps = 10}, Bad::size(), set(&CosineDecay::end), first_rate);
  expect_refused("cosine_decay", "steps", CosineDecay{.steps = 10}, std::vector<Index>{Bad::lowest, -1, 0},
                 set(&CosineDecay::steps), first_rate);
  expect_refused("cosine_decay", "warm_up", CosineDecay{.steps = 10}, beyond_the_end, set(&CosineDecay::warm_up),
                 first_rate);
}

TEST(TrainSettings, OfTheTrainer) {
  const auto make = [](const TrainerConfig<Bag>& config) { Trainer<Bag>(Bag({1}, {2}), config); };
  const TrainerConfig<Bag> good{.learning_rate = ConstantRate{}, .clip = 1.0};
  expect_refused(
      "adam", "beta1", good, Bad::probability(), [](auto& config, double value) { config.optimiser.beta1 = value; },
      make);
  expect_refused(
      "adam", "beta2", good, Bad::probability(), [](auto& config, double value) { config.optimiser.beta2 = value; },
      make);
  expect_refused(
      "adam", "epsilon", good, Bad::factor(), [](auto& config, double value) { config.optimiser.epsilon = value; },
      make);
  expect_refused(
      "adam", "decay", good, Bad::size(), [](auto& config, double value) { config.optimiser.decay = value; }, make);
  expect_refused(
      "trainer", "clip", good, Bad::factor(), [](auto& config, double value) { config.clip = value; }, make);
}

TEST(TrainSettings, OfAdamAlone) {
  const auto step = [](double rate) {
    Bag model({1}, {2});
    Adam<Bag>(model).step({}, {.learning_rate = rate}, model, zeros_like(model));
  };
  expect_refused(
      "adam", "learning_rate", 0.0, Bad::size(), [](double& rate, double value) { rate = value; }, step);
}

TEST(TrainSettings, OfSgdAlone) {
  const auto make = [](const SgdConfig& config) { Sgd<Bag>(Bag({1}, {2}), config); };
  expect_refused(
      "sgd", "momentum", SgdConfig{}, Bad::probability(), [](auto& config, double value) { config.momentum = value; },
      make);
  expect_refused(
      "sgd", "decay", SgdConfig{}, Bad::size(), [](auto& config, double value) { config.decay = value; }, make);
  const auto step = [](double rate) {
    Bag model({1}, {2});
    Sgd<Bag>(model).step({}, {.learning_rate = rate}, model, zeros_like(model));
  };
  expect_refused(
      "sgd", "learning_rate", 0.0, Bad::size(), [](double& rate, double value) { rate = value; }, step);
}

}  // namespace
}  // namespace eigenformer::test
