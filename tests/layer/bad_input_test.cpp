// Configurations that make no layer are refused by the constructor, with place and numbers.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "eigenformer/layer/attention/attention.hpp"
#include "eigenformer/layer/embedding.hpp"
#include "eigenformer/layer/ffn/mlp.hpp"
#include "eigenformer/layer/linear.hpp"
#include "eigenformer/layer/norm/layer_norm.hpp"
#include "support/error.hpp"

using namespace eigenformer;
using test::error_of;

namespace {

std::string attention_error(const AttentionConfig& config) {
  return error_of([&] { Attention<>{config}; });
}

}  // namespace

TEST(BadConfig, Linear) {
  EXPECT_EQ(error_of([] { Linear<>({.in = 0, .out = 3}); }), "[linear] in 0 is invalid: must be in 1…2147483647");
  EXPECT_EQ(error_of([] { Linear<>({.in = 4, .out = -1}); }), "[linear] out -1 is invalid: must be in 1…2147483647");
}

TEST(BadConfig, Embedding) {
  EXPECT_EQ(error_of([] { Embedding<>({.vocabulary = 0, .width = 4}); }),
            "[embedding] vocabulary 0 is invalid: must be in 1…2147483647");
  EXPECT_EQ(error_of([] { Embedding<>({.vocabulary = 9, .width = -4}); }),
            "[embedding] width -4 is invalid: must be in 1…2147483647");
}

TEST(BadConfig, LayerNorm) {
  EXPECT_EQ(error_of([] { LayerNorm<>({.width = 0}); }), "[layer_norm] width 0 is invalid: must be in 1…2147483647");
  EXPECT_EQ(error_of([] { LayerNorm<>({.width = 4, .epsilon = -1e-9}); }),
            "[layer_norm] epsilon -1e-09 is invalid: must be in [0, 1e+30)");
  EXPECT_NE(error_of([] { LayerNorm<>({.width = 4, .epsilon = NAN}); }), "");
}

TEST(BadConfig, Mlp) {
  EXPECT_EQ(error_of([] { Mlp<>({.width = 4, .hidden = -1}); }), "[mlp] hidden -1 is invalid: must be in 0…2147483647");
}

TEST(BadConfig, Attention) {
  EXPECT_EQ(attention_error({.width = 512, .heads = 6}), "[attention] 6 heads do not divide model width 512");
  EXPECT_EQ(attention_error({.width = 7, .heads = 2}), "[attention] 2 heads do not divide model width 7");
  EXPECT_EQ(attention_error({.width = 512, .heads = 0}), "[attention] heads 0 is invalid: must be in 1…2147483647");
  EXPECT_EQ(attention_error({.width = 0, .heads = 8}), "[attention] width 0 is invalid: must be in 1…2147483647");
  EXPECT_EQ(attention_error({.width = 512, .heads = -8}), "[attention] heads -8 is invalid: must be in 1…2147483647");
  EXPECT_EQ(attention_error({.width = 512, .heads = 8, .kv_heads = 3}),
            "[attention] 3 key-value heads do not divide 8 query heads");
  EXPECT_EQ(attention_error({.width = 512, .heads = 8, .kv_heads = -2}),
            "[attention] kv_heads -2 is invalid: must be in 0…2147483647");
  EXPECT_EQ(attention_error({.width = 512, .heads = 6, .head_width = -64}),
            "[attention] head_width -64 is invalid: must be in 0…357913941");
  EXPECT_EQ(attention_error({.width = 512, .heads = 8, .dropout = 1}),
            "[attention] dropout 1 is invalid: must be in [0, 1)");
  EXPECT_NO_THROW(Attention<>({.width = 512, .heads = 6, .head_width = 64})) << "a given head width needs no division";
}

TEST(BadInput, CountsOfACache) {
  KvCache<float> cache(2, 1, 4);
  const Tensor<float, 4> keys(Shape{1, 2, 1, 4});
  const std::vector<Index> negative{-1, 3}, more{(std::numeric_limits<Index>::max)(), 3}, one{2}, good{1, 1};
  const auto append = [&](const std::vector<Index>& counts) {
    return error_of([&] { cache.append(Threads(), keys, keys, counts, 1); });
  };
  EXPECT_EQ(append(negative), "[kv_cache] cannot take up -1 tokens");
  EXPECT_EQ(append(more), "[kv_cache] " + std::to_string(more[0]) + " tokens of all sequences, but keys (1, 2, 1, 4)");
  EXPECT_EQ(cache.length(0), 0);
  cache.append(Threads(), keys, keys, good, 1);
  Context ctx;
  EXPECT_EQ(error_of([&] { cache.view(ctx, negative); }), "[kv_cache] cannot have -1 queries");
  EXPECT_EQ(error_of([&] { (AttentionCall<float>{.caches = &cache, .counts = one}.longest(2)); }),
            "[attention] tokens of 1 sequences, but there are caches of 2");
  EXPECT_EQ((AttentionCall<float>{.caches = &cache, .counts = good}.longest(2)), 2);
  for (const auto* counts : {&negative, &more})
    EXPECT_EQ(error_of([&] { (AttentionCall<float>{.caches = &cache, .counts = *counts}.longest(2)); }),
              "[attention] the counts of new tokens do not add up to 2");
  EXPECT_THROW(cache.view(ctx, more), Error);
}

TEST(BadInput, MemoryOfAnotherWidthOrBatch) {
  const Attention<> attention({.width = 8, .heads = 2});
  const Tensor<float, 3> x(Shape{2, 3, 8}), narrow(Shape{2, 5, 6}), other(Shape{3, 5, 8});
  Context ctx;
  EXPECT_EQ(error_of([&] { attention(ctx, x, {.memory = narrow}); }),
            "[linear] input (2, 5, 6) does not fit a weight of (8, 8)");
  EXPECT_EQ(error_of([&] { attention(ctx, x, {.memory = other}); }),
            "[attention] queries (2, 3, 2, 4), keys (3, 5, 2, 4) and values (3, 5, 2, 4) do not fit");
}
