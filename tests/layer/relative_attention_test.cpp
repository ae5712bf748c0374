// Relative keys and values, straight from the formula, token by token.
#include "eigenformer/layer/attention/relative_attention.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "eigenformer/layer/attention/transformer_xl_attention.hpp"
#include "support/tensors.hpp"

namespace eigenformer::test {

TEST(RelativeAttentionLayer, IsTheFormula) {
  constexpr Index tokens = 9, width = 6, head_count = 2, head_width = 3, clip = 2;
  RelativeAttention<double> layer(RelativeAttentionConfig{.width = width, .heads = head_count, .clip = clip});
  randomize(layer, 1);
  const auto x = random_tensor<double>(Shape{Index{2}, tokens, width}, 2);
  Context ctx;
  const auto q = layer.query(ctx, x.view()), k = layer.key(ctx, x.view()), v = layer.value(ctx, x.view());
  Tensor<double, 3> mixed(x.shape());
  for (Index b = 0; b < 2; ++b)
    for (Index h = 0; h < head_count; ++h)
      for (Index i = 0; i < tokens; ++i) {
        const auto bucket = [&](Index j) { return std::clamp(j - i, -clip, clip) + clip; };
        double weights[tokens], sum = 0;
        for (Index j = 0; j <= i; ++j) {  // causal
          double score = 0;
          for (Index e = 0; e < head_width; ++e)
            score += q(b, i, h * head_width + e) * (k(b, j, h * head_width + e) + layer.relative_key(bucket(j), e)) /
                     std::sqrt(3.0);
          sum += weights[j] = std::exp(score);
        }
        for (Index j = 0; j <= i; ++j)
          for (Index e = 0; e < head_width; ++e)
            mixed(b, i, h * head_width + e) +=
                weights[j] / sum * (v(b, j, h * head_width + e) + layer.relative_value(e, bucket(j)));
      }
  const auto want = layer.output(ctx, mixed.view()), got = layer(ctx, x, {.mask = {.causal = true}});
  for (Index i = 0; i < want.size(); ++i) ASSERT_NEAR(got.data()[i], want.data()[i], 1e-13);
}

TEST(TransformerXlAttentionLayer, IsTheFormula) {
  constexpr Index tokens = 5, keys = 9, width = 6, head_count = 2, head_width = 3;
  TransformerXlAttention<double> layer({.width = width, .heads = head_count});
  randomize(layer, 1);
  const auto memory = random_tensor<double>(Shape{Index{2}, keys, width}, 2);
  Tensor<double, 3> x(Shape{Index{2}, tokens, width});
  for (Index b = 0; b < 2; ++b) std::copy_n(&memory(b, keys - tokens, 0), tokens * width, &x(b, 0, 0));
  Context ctx;
  const auto q = layer.query(ctx, x.view()), k = layer.key(ctx, memory.view()), v = layer.value(ctx, memory.view());
  Tensor<double, 3> mixed(Shape{Index{2}, tokens, width});
  for (Index b = 0; b < 2; ++b)
    for (Index h = 0; h < head_count; ++h)
      for (Index i = 0; i < tokens; ++i) {
        double weights[keys], sum = 0;
        const Index own = i + keys - tokens;
        for (Index j = 0; j <= own; ++j) {
          double score = 0;
          for (Index e = 0; e < head_width; ++e) {
            const Index at = h * head_width + e;
            double r = 0;  // W times all sines, then all cosines of the distance
            for (Index d = 0; d < 3; ++d) {
              const double angle = static_cast<double>(own - j) * std::pow(10000.0, -2.0 * static_cast<double>(d) / 6);
              r += layer.position(at, d) * std::sin(angle) + layer.position(at, 3 + d) * std::cos(angle);
            }
            score +=
                ((q(b, i, at) + layer.content_bias(at)) * k(b, j, at) + (q(b, i, at) + layer.position_bias(at)) * r) /
                std::sqrt(3.0);
          }
          sum += weights[j] = std::exp(score);
        }
        for (Index j = 0; j <= own; ++j)
          for (Index e = 0; e < head_width; ++e)
            mixed(b, i, h * head_width + e) += weights[j] / sum * v(b, j, h * head_width + e);
      }
  const auto want = layer.output(ctx, mixed.view()), got = layer(ctx, x, {.memory = memory, .mask = {.causal = true}});
  for (Index i = 0; i < want.size(); ++i) ASSERT_NEAR(got.data()[i], want.data()[i], 1e-12);
}

// A first token of NaN that only itself may see: nothing that the others give, or get back, changes by a bit.
template <class Layer>
void expect_hidden_token_harmless(Layer layer) {
  constexpr Index tokens = 7, width = 6;
  randomize(layer, 1);
  Tensor<bool, 2> allowed(Shape{tokens, tokens});
  for (Index i = 0; i < tokens; ++i)
    for (Index j = 0; j < tokens; ++j) allowed(i, j) = j > 0 || i == 0;
  auto x = random_tensor<double>(Shape{Index{1}, tokens, width}, 2);
  const auto dy = random_tensor<double>(x.shape(), 3);
  const auto run = [&] {
    Tensor<double, 3> dx(x.shape());
    Context ctx;
    Tape tape;
    ctx.tape = &tape;
    tape.watch(std::as_const(x).view(), dx.view());
    auto gradient = zeros_like(layer);
    tape.watch(layer, gradient);
    const auto y =
        layer(ctx, std::as_const(x).view(), AttentionCall<double>{.mask = {.causal = true, .allowed = allowed}});
    backward(ctx, y, dy.view());
    return std::pair{Tensor<double, 3>(y), dx};
  };
  const auto [y, dx] = run();
  std::fill_n(x.data(), width, NAN);
  const auto [other_y, other_dx] = run();
  EXPECT_TRUE(std::isnan(other_y(0, 0, 0)) && std::isnan(other_dx(0, 0, 0)));
  EXPECT_TRUE(identical(other_y.view().slice(1, 1, tokens - 1), y.view().slice(1, 1, tokens - 1)));
  EXPECT_TRUE(identical(other_dx.view().slice(1, 1, tokens - 1), dx.view().slice(1, 1, tokens - 1)));
}

TEST(RelativeAttentionLayer, WhatIsHiddenMayBeNan) {
  expect_hidden_token_harmless(RelativeAttention<double>(RelativeAttentionConfig{.width = 6, .heads = 2, .clip = 2}));
}
TEST(TransformerXlAttentionLayer, WhatIsHiddenMayBeNan) {
  expect_hidden_token_harmless(TransformerXlAttention<double>({.width = 6, .heads = 2}));
}

}  // namespace eigenformer::test
