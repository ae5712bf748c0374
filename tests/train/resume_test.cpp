// Training that is interrupted, saved and resumed is training that was never interrupted: the same bits.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "eigenformer/core/initialize.hpp"
#include "eigenformer/io/checkpoint.hpp"
#include "eigenformer/model/encoder_decoder.hpp"
#include "eigenformer/op/cross_entropy.hpp"
#include "eigenformer/train/sgd.hpp"
#include "eigenformer/train/trainer.hpp"
#include "support/files.hpp"
#include "support/tensors.hpp"

namespace eigenformer::test {
namespace {

using Model = EncoderDecoder<PostNorm<float>>;

Model make_model(std::uint64_t seed) {
  Model model({.source_vocabulary = 13,
               .target_vocabulary = 13,
               .encoder_layers = 1,
               .decoder_layers = 1,
               .block = {.width = 16, .hidden = 24, .heads = 2, .dropout = 0.2}});
  initialize(model, seed);
  return model;
}

TrainerConfig<Model> config(std::uint64_t seed) { return {.learning_rate = WarmUp{16, 4}, .clip = 1.0, .seed = seed}; }

/// Steps first+1 … last, each of two micro-batches that depend on the step alone; the losses.
std::vector<double> train(auto& trainer, Index last) {
  std::vector<double> losses;
  while (trainer.steps() < last) {
    for (std::uint64_t part = 0; part < 2; ++part) {
      const std::uint64_t seed = 10 * static_cast<std::uint64_t>(trainer.steps()) + part;
      const auto source = random_ids(Shape{3, 5}, 3, 13, seed), target = random_ids(Shape{3, 6}, 3, 13, seed + 1000),
                 next = random_ids(Shape{3, 6}, 3, 13, seed + 2000);
      trainer.accumulate([&](Context& ctx, const Model& model) {
        return op::cross_entropy(ctx, model(ctx, {.source = source, .target = target}), next, {.smoothing = 0.1});
      });
    }
    losses.push_back(trainer.step().loss);
  }
  return losses;
}

template <class T>
void expect_same_bits(const T& actual, const T& expected) {
  walk(
      [](const std::string& name, const Leaf&, const auto& x, const auto& y) {
        EXPECT_EQ(std::memcmp(x.data(), y.data(), static_cast<std::size_t>(x.size()) * sizeof(*x.data())), 0) << name;
      },
      actual, expected);
}

class ResumeTest : public testing::TestWithParam<int> {};  // number of threads

TEST_P(ResumeTest, InterruptedIsUninterrupted) {
  const TemporaryFolder folder;
  const auto path = folder / "trainer.safetensors";
  Trainer<Model> whole(make_model(1), config(7), Threads(GetParam()));
  const std::vector<double> losses = train(whole, 6);
  ASSERT_EQ(losses.size(), 6u);

  std::vector<double> parts;
  {
    Trainer<Model> first(make_model(1), config(7), Threads(GetParam()));
    parts = train(first, 3);
    save(path, first, {{"epoch", "1"}});
  }
  Trainer<Model> second(make_model(2), config(8),
                        Threads(GetParam()));  // other weights, another seed of dropout: all replaced
  EXPECT_EQ(load(path, second).at("epoch"), "1");
  EXPECT_EQ(second.steps(), 3);
  for (const double loss : train(second, 6)) parts.push_back(loss);

  EXPECT_EQ(parts, losses);
  EXPECT_EQ(second.steps(), 6);
  expect_same_bits(second, whole);

  Trainer<Model> other(make_model(1), config(8), Threads(GetParam()));  // and dropout was on: its seed matters
  EXPECT_NE(train(other, 1).front(), losses.front());
}

// Whatever the optimiser keeps is saved with the rest.
TEST(ResumeSgdTest, InterruptedIsUninterrupted) {
  const TemporaryFolder folder;
  const auto path = folder / "trainer.safetensors";
  const TrainerConfig<Model, Sgd<Model>> sgd{.optimiser = {.momentum = 0.9}, .learning_rate = ConstantRate{0.1}};
  Trainer whole(make_model(1), sgd), second(make_model(2), sgd);
  train(whole, 3);
  save(path, whole);
  train(whole, 6);
  load(path, second);
  train(second, 6);
  expect_same_bits(second, whole);
}

INSTANTIATE_TEST_SUITE_P(Threads, ResumeTest, testing::Values(1, 2));

TEST(TrainerCheckpoint, TheModelAloneIsReadByItsPrefix) {
  const TemporaryFolder folder;
  const auto file = folder / "trainer.safetensors";
  Trainer<Model> trainer(make_model(1), config(5));
  train(trainer, 2);
  save(file, trainer);
  Model model = make_model(2);
  expect_contains(error_of([&] { load(file, model); }), "read with the prefix \"model.\"");
  load(file, model, {.prefix = "model."});
  walk(
      [](const std::string& name, const Leaf&, const auto& want, const auto& got) {
        EXPECT_EQ(std::memcmp(want.data(), got.data(), static_cast<std::size_t>(want.size()) * sizeof(float)), 0)
            << name;
      },
      std::as_const(trainer.model), std::as_const(model));
}

TEST(ResumeErrorTest, AFailedLoadChangesNothing) {
  const TemporaryFolder folder;
  const auto path = folder / "trainer.safetensors";
  Trainer<Model> trainer(make_model(1), config(7)), untouched(make_model(1), config(7));
  train(trainer, 2);
  train(untouched, 2);
  save(path, trainer.model);  // the model alone, without its prefix
  const std::string message = error_of([&] { load(path, trainer); });
  expect_contains(message, "\n  missing: model.embedding.weight (13, 16)");
  expect_contains(message, "\n  extra: decoder.blocks.0.cross_attention.key.bias (16)");
  expect_contains(message, "\n  missing: … and ");  // ten of a kind are told
  EXPECT_EQ(train(trainer, 3), train(untouched, 3));
  expect_same_bits(trainer, untouched);
}

TEST(ResumeErrorTest, CountersThatCannotBe) {
  const TemporaryFolder folder;
  const auto path = folder / "trainer.safetensors";
  Trainer<Model> trainer(make_model(1), config(7)), untouched(make_model(1), config(7)),
      other(make_model(2), config(8));
  for (const std::int64_t steps : {std::int64_t{-5}, std::int64_t{1} << 31, std::numeric_limits<std::int64_t>::max()}) {
    other.counters(0) = steps;
    save(path, other);
    EXPECT_EQ(error_of([&] { load(path, trainer); }),
              "[load] " + path.string() + " does not fit the model:\n  value: counters: [trainer] steps " +
                  std::to_string(steps) + " is invalid: must be in 0…2147483646");
    expect_same_bits(trainer, untouched);
  }
  other.counters(0) = 2147483646;
  save(path, other);
  load(path, trainer);
  expect_same_bits(trainer, other);
}

}  // namespace
}  // namespace eigenformer::test
