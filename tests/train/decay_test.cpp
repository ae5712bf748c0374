// What AdamW decays, in whole families: matrices, and no vector.
#include <gtest/gtest.h>

#include <string>

#include "eigenformer/model/decoders.hpp"
#include "eigenformer/model/t5.hpp"
#include "eigenformer/train/adam.hpp"
#include "support/tensors.hpp"

namespace eigenformer::test {
namespace {

// Without a gradient, with a rate of 1 and a decay of ½.
template <class Model>
void expect_matrices_halved(const auto& config) {
  Model model(config);
  randomize(model, 1);
  const Model before = model;
  Adam<Model>(model, {.decay = 0.5}).step({}, {.learning_rate = 1}, model, zeros_like(model));
  walk(
      [](const std::string& name, const Leaf&, const auto& now, const auto& then) {
        const float left = now.rank > 1 ? 0.5f : 1.0f;
        for (Index i = 0; i < now.size(); ++i) ASSERT_EQ(now.data()[i], left * then.data()[i]) << name;
      },
      std::as_const(model), before);
}

TEST(Decay, HalvesMatricesAlone) {
  const auto decoder = []<class Model>(const Model*) {
    return typename Model::Config{.vocabulary = 7,
                                  .max_positions = 5,
                                  .layers = 1,
                                  .block = {.width = 8, .hidden = 6, .heads = 2},
                                  .tied = false,
                                  .head_bias = true};
  };
  expect_matrices_halved<Gpt2<float>>(decoder(static_cast<Gpt2<>*>(nullptr)));
  expect_matrices_halved<Llama<float>>(decoder(static_cast<Llama<>*>(nullptr)));
  expect_matrices_halved<Qwen3<float>>(decoder(static_cast<Qwen3<>*>(nullptr)));
  auto capped = decoder(static_cast<Gemma2<>*>(nullptr));
  capped.block.attention.scores.cap = 1;
  expect_matrices_halved<Gemma2<float>>(capped);
  expect_matrices_halved<T5<float>>(T5<>::Config{.source_vocabulary = 7,
                                                 .target_vocabulary = 7,
                                                 .encoder_layers = 1,
                                                 .decoder_layers = 1,
                                                 .block = {.width = 8, .hidden = 6, .heads = 2}});
}

}  // namespace
}  // namespace eigenformer::test
