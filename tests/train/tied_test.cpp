// One tensor used twice is one tensor: differentiated through both uses, counted, clipped and stepped once.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "eigenformer/layer/embedding.hpp"
#include "eigenformer/model/encoder_decoder.hpp"
#include "eigenformer/train/adam.hpp"
#include "eigenformer/train/clip.hpp"

using namespace eigenformer;

namespace {

EncoderDecoder<>::Config config(Sharing sharing) {
  return {.source_vocabulary = 11,
          .target_vocabulary = 11,
          .encoder_layers = 1,
          .decoder_layers = 1,
          .block = {.width = 4, .hidden = 6, .heads = 2, .dropout = 0},
          .sharing = sharing};
}

}  // namespace

// y = w·w·x at x = 1, w = 3: dy/dw = 6.
TEST(TiedWeights, BothUsesReachTheGradient) {
  Embedding<float> model({.vocabulary = 1, .width = 1});
  model.weight(0, 0) = 3;
  Embedding<float> gradient = zeros_like(model);
  Adam<Embedding<float>> adam(model);
  Context ctx;
  Tape tape;
  ctx.tape = &tape;
  tape.watch(model, gradient);
  const std::vector<Id> ids{0};
  const auto y = model.logits(ctx, model(ctx, ConstView<Id, 2>(ids.data(), {1, 1})));
  EXPECT_EQ(y(0, 0, 0), 9);
  backward(ctx, y.reshape(Shape{1}));
  EXPECT_EQ(gradient.weight(0, 0), 6);

  int steps = 0;
  walk([&](const std::string&, const Leaf&, const auto&) { ++steps; }, adam.first_moment);
  EXPECT_EQ(steps, 1) << "one state of the optimiser";
  adam.step({}, {.learning_rate = 0.5}, model, gradient);
  EXPECT_NEAR(model.weight(0, 0), 2.5, 1e-6) << "one step of 0.5";
}

TEST(TiedWeights, CountInTheNormOnce) {
  EncoderDecoder<> gradient(config(Sharing::all));
  set_zero(gradient);
  std::fill_n(gradient.embedding.weight.data(), 8, 10.0f);  // Σ g² = 800
  Context ctx;
  EXPECT_NEAR(global_norm(ctx, gradient), 28.284271, 1e-6);
}

TEST(TiedWeights, CountInTheParametersOnce) {
  const auto count = [](Sharing sharing) { return parameter_count(EncoderDecoder<>(config(sharing))); };
  // Attention 4·(16 + 4), FFN 24 + 6 + 24 + 4, norm 8; an encoder block has 1, 1 and 2, a decoder block 2, 1 and 3.
  const Index blocks = (80 + 58 + 16) + (160 + 58 + 24), table = 11 * 4;
  EXPECT_EQ(count(Sharing::all), blocks + table);
  EXPECT_EQ(count(Sharing::target_and_output), blocks + 2 * table);
  EXPECT_EQ(count(Sharing::none), blocks + 3 * table);
}

TEST(TiedWeights, HaveOneName) {
  const auto names = [](Sharing sharing) {
    std::set<std::string> result;
    const EncoderDecoder<> model(config(sharing));
    walk(
        [&](const std::string& path, const Leaf&, const auto& tensor) {
          if (tensor.shape().rows() == 11) result.insert(path);
        },
        model);
    return result;
  };
  using Names = std::set<std::string>;
  EXPECT_EQ(names(Sharing::all), Names{"embedding.weight"});
  EXPECT_EQ(names(Sharing::target_and_output), (Names{"embedding.weight", "target_embedding.weight"}));
  EXPECT_EQ(names(Sharing::none), (Names{"embedding.weight", "target_embedding.weight", "head.weight"}));
}
