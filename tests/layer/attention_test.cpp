// Attention: which head attends with which weights.
#include "eigenformer/layer/attention/attention.hpp"

#include "support/tensors.hpp"

namespace eigenformer::test {
namespace {

TEST(Attention, ScalesByTheHeadWidth) {
  const Attention<float> attention(AttentionConfig{.width = 512, .heads = 6, .head_width = 64});
  EXPECT_EQ(attention.query.weight.shape(), (Shape{384, 512}));
  EXPECT_EQ(attention.output.weight.shape(), (Shape{512, 384}));
  EXPECT_EQ(attention.scale, 0.125);  // 1/√64, not 1/√512
  EXPECT_EQ(Attention<float>(AttentionConfig{.width = 512, .heads = 8, .scale = 1}).scale, 1);
}

/// q·k is 8 for the first token and 0 for the second: with scale 1/√64 the weights are softmax(1, 0).
TEST(Attention, WeighsValuesBySoftmaxOfScaledScores) {
  Attention<double> attention(AttentionConfig{.width = 64, .heads = 1});
  attention.query.bias(0) = attention.key.weight(0, 0) = attention.value.weight(0, 0) = attention.output.weight(0, 0) =
      1;
  Tensor<double, 3> x(Shape{1, 2, 64});
  x(0, 0, 0) = 8;
  Context ctx;
  const auto y = attention(ctx, x);
  EXPECT_NEAR(y(0, 0, 0), 8 * 0.731059, 1e-5);
  EXPECT_NEAR(y(0, 1, 0), 8 * 0.731059, 1e-5);
}

/// All scores are 0, so that the last of five tokens gets the mean of those that it sees: of 5, 4, …
TEST(Attention, TheNarrowerWindowCounts) {
  const auto last = [](Index own, Index of_call) {
    Attention<float> attention({.width = 2, .heads = 1, .window = own});
    attention.value.weight(0, 0) = attention.output.weight(0, 0) = 1;
    Tensor<float, 3> x(Shape{1, 5, 2});
    for (Index n = 0; n < 5; ++n) x(0, n, 0) = static_cast<float>(n + 1);
    Context ctx;
    const AttentionCall<float> call{.mask = {.causal = true, .window = of_call}};
    const float whole = attention(ctx, x, call)(0, 4, 0);
    KvCache<float> cache = attention.cache(1);
    const std::vector<Index> all{5};
    AttentionCall<float> cached = call;
    cached.caches = &cache;
    cached.counts = all;
    EXPECT_EQ(attention(ctx, x, cached)(0, 4, 0), whole);
    return whole;
  };
  EXPECT_FLOAT_EQ(last(0, 0), 3);
  EXPECT_FLOAT_EQ(last(2, 0), 4.5);
  EXPECT_FLOAT_EQ(last(0, 2), 4.5);
  EXPECT_FLOAT_EQ(last(2, 3), 4.5);
  EXPECT_FLOAT_EQ(last(3, 2), 4.5);
}

TEST(Attention, WithAsManyKeyHeadsAsHeadsIsMultiHeadAttention) {
  Attention<float> multi_head(AttentionConfig{.width = 24, .heads = 4}),
      grouped(AttentionConfig{.width = 24, .heads = 4, .kv_heads = 4});
  randomize(multi_head, 1);
  randomize(grouped, 1);
  const auto x = random_tensor<float>(Shape{2, 5, 24}, 2);
  Context ctx;
  EXPECT_TRUE(identical(multi_head(ctx, x), grouped(ctx, x)));
}

/// Heads 0, 1 share key-value head 0 and heads 2, 3 share head 1: the same as if each had a copy of its own.
TEST(Attention, RepeatsKeyHeadsGroupByGroup) {
  const Index width = 24, head_width = 6;
  Attention<float> grouped(AttentionConfig{.width = width, .heads = 4, .kv_heads = 2}),
      full(AttentionConfig{.width = width, .heads = 4});
  randomize(grouped, 1);
  full.query = grouped.query;
  full.output = grouped.output;
  for (Index row = 0; row < 4 * head_width; ++row) {
    const Index from = row / (2 * head_width) * head_width + row % head_width;
    full.key.weight.matrix().row(row) = grouped.key.weight.matrix().row(from);
    full.value.weight.matrix().row(row) = grouped.value.weight.matrix().row(from);
    full.key.bias(row) = grouped.key.bias(from);
    full.value.bias(row) = grouped.value.bias(from);
  }
  const auto x = random_tensor<float>(Shape{2, 5, width}, 2);
  Context ctx;
  EXPECT_LE(difference(grouped(ctx, x), full(ctx, x)), 1e-6);
}

}  // namespace
}  // namespace eigenformer::test
