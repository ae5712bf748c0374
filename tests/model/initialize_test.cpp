// Other initialisations, by the standard deviations that they promise.
#include "eigenformer/model/initialize.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "eigenformer/block/deep_norm.hpp"
#include "eigenformer/model/bert.hpp"
#include "eigenformer/model/decoders.hpp"
#include "eigenformer/model/t5.hpp"
#include "support/error.hpp"
#include "support/tensors.hpp"

namespace eigenformer::test {
namespace {

double deviation(ConstView<float, 2> weight) {
  double sum = 0;
  for (Index i = 0; i < weight.extent(0); ++i)
    for (Index j = 0; j < weight.extent(1); ++j)
      sum += static_cast<double>(weight(i, j)) * static_cast<double>(weight(i, j));
  return std::sqrt(sum / static_cast<double>(weight.size()));
}

}  // namespace

TEST(Initialize, Gpt2) {
  Gpt2<float> model(
      {.vocabulary = 50, .max_positions = 40, .layers = 8, .block = {.width = 64, .hidden = 256, .heads = 4}});
  initialize_gpt2(model, 8, 1);
  const auto& first = model.decoder.blocks[3];
  EXPECT_NEAR(deviation(first.attention.query.weight), 0.02, 0.001);
  EXPECT_NEAR(deviation(first.attention.output.weight), 0.005, 0.0003);
  EXPECT_NEAR(deviation(first.feed_forward.down.weight), 0.005, 0.0002);
  EXPECT_NEAR(deviation(model.embedding.weight.view()), 0.02, 0.002);
  EXPECT_EQ(first.attention_residual.norm.weight(0), 1);
  EXPECT_EQ(first.attention.query.bias(0), 0);
}

TEST(Initialize, T5AndDeepNorm) {
  T5<float> model({.source_vocabulary = 50,
                   .target_vocabulary = 50,
                   .encoder_layers = 1,
                   .decoder_layers = 1,
                   .block = {.width = 64, .hidden = 256, .heads = 4}});
  initialize_t5(model, 64, 16, 1);
  const auto& first = model.decoder.blocks[0];
  EXPECT_NEAR(deviation(first.self_attention.query.weight), 1 / std::sqrt(64.0 * 16), 0.002);
  EXPECT_NEAR(deviation(first.self_attention.key.weight), 1.0 / 8, 0.01);
  EXPECT_NEAR(deviation(first.feed_forward.down.weight), 1.0 / 16, 0.004);
  EXPECT_NEAR(deviation(model.embedding.weight.view()), 1, 0.05);
  EncoderBlock<DeepNorm<float>> deep({.width = 64, .hidden = 256, .heads = 4}), plain = deep;
  initialize(plain, 3);
  initialize_deep_norm(deep, deep_norm_beta(18), 3);
  EXPECT_NEAR(deep_norm_alpha(18), std::pow(36.0, 0.25), 1e-12);
  EXPECT_FLOAT_EQ(deep.attention.value.weight(0, 0),
                  plain.attention.value.weight(0, 0) * static_cast<float>(std::pow(144.0, -0.25)));
  EXPECT_FLOAT_EQ(deep.feed_forward.up.weight(1, 2),
                  plain.feed_forward.up.weight(1, 2) * static_cast<float>(std::pow(144.0, -0.25)));
  EXPECT_EQ(deep.attention.query.weight(0, 0), plain.attention.query.weight(0, 0));
}

TEST(Initialize, KaimingAndTruncatedNormal) {
  Linear<float> linear({.in = 128, .out = 300});
  initialize_kaiming(linear, 1);
  EXPECT_NEAR(deviation(linear.weight), std::sqrt(2.0 / 128), 0.003);
  initialize_normal(linear, 1, 0.5, true);
  for (Index i = 0; i < linear.weight.size(); ++i) ASSERT_LE(std::abs(linear.weight.view().data()[i]), 1.0f);
  EXPECT_NEAR(deviation(linear.weight), 0.5 * 0.8796, 0.01) << "what is left of the deviation";
}

// A model that nobody gave values says so, whichever way it is used; where the norms begin at one, it runs.
TEST(Initialize, IsMissedAtTheFirstUse) {
  const auto missed = [](const std::string& place, auto&& use) {
    EXPECT_EQ(
        error_of(use),
        "[" + place + "] all weights are zero: call initialize(model, seed), or load them, before the model is used");
  };
  const EncoderBlock<>::Config block{.width = 8, .hidden = 6, .heads = 2};
  const Tensor<Id, 2> ids(Shape{1, 3});
  const std::vector<Id> next{1};
  const std::vector<Index> one{1};
  Context ctx;

  const Gpt2<>::Config decoder_config{.vocabulary = 5, .layers = 1, .block = block};
  const Gpt2<float> decoder(decoder_config);
  missed("language_model", [&] { decoder(ctx, {.ids = ids}); });
  missed("language_model", [&] { decoder.hidden(ctx, {.ids = ids}); });
  missed("language_model", [&] { decoder.start(); });

  const EncoderDecoder<> pair(
      {.source_vocabulary = 5, .target_vocabulary = 5, .encoder_layers = 1, .decoder_layers = 1, .block = block});
  missed("encoder_decoder", [&] { pair(ctx, {.source = ids, .target = ids}); });
  missed("encoder_decoder", [&] { pair.encode(ctx, ids); });
  missed("encoder_decoder", [&] { pair.decode(ctx, ids, Tensor<float, 3>(Shape{1, 3, 8})); });
  missed("encoder_decoder", [&] { pair.start(ctx, ids); });
  missed("bert", [&] { Bert<float>({.vocabulary = 5, .layers = 1, .block = block})(ctx, {.ids = ids}); });
  missed("stack", [&] { Encoder<>({.layers = 1, .block = block})(ctx, Tensor<float, 3>(Shape{1, 3, 8})); });

  Gpt2<float> begun(decoder_config);
  initialize(begun, 1);
  auto state = begun.start();
  missed("language_model", [&] { decoder.hidden(ctx, {next, one}, state); });
  missed("language_model", [&] { decoder.next_logits(ctx, {next, one}, state); });
  EXPECT_EQ(begun.next_logits(ctx, {next, one}, state).shape(), (Shape{1, 5})) << "and the state is as it was";
  begun = decoder;
  begun.decoder.norm->weight(7) = 1;
  EXPECT_NO_THROW(begun(ctx, {.ids = ids}));
}

}  // namespace eigenformer::test
