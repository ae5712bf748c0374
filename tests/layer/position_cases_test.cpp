// Positions by worked values.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <vector>

#include "eigenformer/layer/attention/attention.hpp"
#include "eigenformer/layer/attention/relative_attention.hpp"
#include "eigenformer/layer/attention/transformer_xl_attention.hpp"
#include "eigenformer/layer/embedding.hpp"
#include "eigenformer/layer/ffn/gated_mlp.hpp"
#include "eigenformer/layer/ffn/mlp.hpp"
#include "eigenformer/layer/position/learned.hpp"
#include "eigenformer/layer/position/relative.hpp"
#include "eigenformer/layer/position/rotary.hpp"
#include "eigenformer/layer/position/sinusoidal.hpp"
#include "support/error.hpp"
#include "support/tensors.hpp"

namespace eigenformer::test {
namespace {

/// x (B, N, H, E) turned at these positions.
Tensor<double, 4> turned(const RotaryConfig& config, ConstView<double, 4> x, const Positions& positions) {
  Context ctx;
  AttentionCall<double> call;
  Rotary<double>(config).attend(ctx, x.extent(0), x.extent(1), positions, call);
  return Tensor<double, 4>(op::rotary(ctx, x, call.rotary));
}

double dot(const double* a, const double* b, Index width) {
  double sum = 0;
  for (Index i = 0; i < width; ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace

// q = k = (1, 0), θ = 1 radian per token: the score of positions m and n is cos(n − m).
TEST(RotaryCases, TheScoreDependsOnTheDistance) {
  Tensor<double, 4> x(Shape{1, 1, 1, 2});
  x(0, 0, 0, 0) = 1;
  for (const auto& [m, n] : {std::pair<Index, Index>{1, 4}, {101, 104}}) {
    const auto q = turned({.head_width = 2}, x, {.first = m}), k = turned({.head_width = 2}, x, {.first = n});
    EXPECT_NEAR(dot(q.data(), k.data(), 2), -0.98999250, 1e-8);
  }
  const auto random_q = random_tensor<double>(Shape{1, 1, 1, 16}, 1),
             random_k = random_tensor<double>(Shape{1, 1, 1, 16}, 2);
  for (const auto layout : {RotaryLayout::halves, RotaryLayout::interleaved}) {
    const RotaryConfig config{.head_width = 16, .rotated = 12, .layout = layout};
    const auto score = [&](Index m, Index n) {
      const auto q = turned(config, random_q.view(), {.first = m}), k = turned(config, random_k.view(), {.first = n});
      return dot(q.data(), k.data(), 16);
    };
    for (const Index shift : {1, 31, 32, 1000}) EXPECT_NEAR(score(3 + shift, 40 + shift), score(3, 40), 1e-9);
  }
}

// R₁ᵀ·R₄ = R₃, entry by entry: turning the unit vectors shows the columns.
TEST(RotaryCases, RotationsCompose) {
  const auto columns = [](Index position) {
    Tensor<double, 4> units(Shape{4, 1, 1, 4});
    for (Index i = 0; i < 4; ++i) units(i, 0, 0, i) = 1;
    return turned({.head_width = 4, .layout = RotaryLayout::interleaved}, units.view(), {.first = position});
  };
  const auto one = columns(1), three = columns(3), four = columns(4);
  for (Index i = 0; i < 4; ++i)
    for (Index j = 0; j < 4; ++j) EXPECT_NEAR(dot(&one(i, 0, 0, 0), &four(j, 0, 0, 0), 4), three(j, 0, 0, i), 1e-12);
}

TEST(RotaryCases, EveryBatchRowAndHeadTurns) {
  Tensor<float, 4> ones(Shape{2, 1, 16, 256});
  std::fill_n(ones.data(), ones.size(), 1.0f);
  Tensor<Index, 2> given(Shape{2, 1});
  given(0, 0) = given(1, 0) = 6;
  for (const Positions& positions : {Positions{.first = 6}, Positions{.given = given}}) {
    Context ctx;
    AttentionCall<float> call;
    Rotary<float>(RotaryConfig{.head_width = 256}).attend(ctx, 2, 1, positions, call);
    const auto y = op::rotary<float>(ctx, ones.view(), call.rotary);
    for (Index b = 0; b < 2; ++b)
      for (Index h = 0; h < 16; ++h) {
        const double first[] = {1.23958578, 1.40903004, 1.35021075, 1.11484295}, second[] = {0.68075479, 0.12097245};
        for (Index i = 0; i < 4; ++i) EXPECT_NEAR(y(b, 0, h, i), first[i], 2e-7);
        for (Index i = 0; i < 2; ++i) EXPECT_NEAR(y(b, 0, h, 128 + i), second[i], 2e-7);
      }
  }
}

TEST(RotaryCases, AnglesAreComputedInDouble) {
  const auto cosine = [](const RotaryConfig& config, Index position, Index pair) {
    Context ctx;
    AttentionCall<float> call;
    Rotary<float>(config).attend(ctx, 1, 1, {.first = position}, call);
    return call.rotary.cosine(0, 0, pair);
  };
  EXPECT_NEAR(cosine({.head_width = 32}, 1857, 1), 0.30669281, 1e-7);
  EXPECT_NEAR(cosine({.head_width = 2}, 257, 0), 0.81930553, 1e-7);
  EXPECT_NEAR(cosine({.head_width = 2}, 15962, 0), -0.90801590, 1e-7);
  EXPECT_NEAR(cosine({.head_width = 128}, 131071, 1), -0.97827091, 1e-7);
}

TEST(RotaryCases, Yarn) {
  const RotaryFrequencies at(
      {.head_width = 128, .base = 150000, .scaling = YarnScaling{.factor = 32, .original = 1024}},
      1);  // pair 32 turns less than once
  EXPECT_NEAR(at.values[32], 8.0687153e-5, 1e-11) << "θ^(−2i/D)/s";
  const double factors[] = {1.27725887, 1.34657359, 1.41588831, 1.48520303};
  for (int i = 0; i < 4; ++i) {
    const RotaryFrequencies stretched({.head_width = 128, .scaling = YarnScaling{.factor = std::ldexp(16.0, i)}}, 1);
    EXPECT_NEAR(stretched.attention_factor, factors[i], 1e-8);
  }
  EXPECT_EQ(RotaryFrequencies({.head_width = 128, .scaling = YarnScaling{.factor = 32, .attention_factor = 1.0}}, 1)
                .attention_factor,
            1)
      << "verbatim";
}

TEST(RotaryCases, Scalings) {
  const auto values = [](decltype(RotaryConfig::scaling) scaling, Index tokens = 1) {
    return RotaryFrequencies({.head_width = 8, .scaling = scaling}, tokens).values;
  };
  const auto plain = values({});
  EXPECT_NEAR(plain[1], 0.1, 1e-15);
  const auto linear = values(LinearScaling{4});
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(linear[i], plain[i] / 4, 1e-15);
  const auto ntk = values(NtkScaling{4});
  EXPECT_NEAR(ntk[0], 1, 1e-15) << "the fastest stay";
  EXPECT_NEAR(ntk[3], plain[3] / 4, 1e-15) << "the slowest are divided";
  EXPECT_EQ(values(DynamicNtkScaling{4, 100}, 100), plain) << "no longer than in training";
  EXPECT_NEAR(values(DynamicNtkScaling{4, 100}, 200)[3], plain[3] / 5, 1e-15) << "4·2 − 3";
  const auto llama3 = values(Llama3Scaling{.factor = 8, .low = 1, .high = 4, .original = 8192});
  EXPECT_EQ(llama3[0], plain[0]) << "many turns in 8192 tokens";
  EXPECT_EQ(values(Llama3Scaling{.factor = 8, .low = 1, .high = 4, .original = 100})[3], plain[3] / 8)
      << "less than one";
  const LongScaling each{
      .short_factors = {1, 1, 2, 2}, .long_factors = {1, 2, 3, 4}, .original = 10, .max_positions = 100};
  EXPECT_NEAR(values(each, 10)[3], plain[3] / 2, 1e-15);
  EXPECT_NEAR(values(each, 11)[3], plain[3] / 4, 1e-15);
  EXPECT_NEAR(RotaryFrequencies({.head_width = 8, .scaling = each}, 1).attention_factor, std::sqrt(2.0), 1e-12)
      << "√(1 + ln 10/ln 10)";
  const auto divided = values(FactorScaling{{1, 2, 4, 8}}, 100);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(divided[i], std::ldexp(plain[i], -static_cast<int>(i)), 1e-15);
}

TEST(RotaryCases, RefusesWhatMakesNoSense) {
  EXPECT_EQ(error_of([] { Rotary<>(RotaryConfig{.head_width = 8, .rotated = 3}); }),
            "[rotary] cannot rotate 3 of 8 elements");
  EXPECT_EQ(error_of([] { Rotary<>(RotaryConfig{.head_width = 8, .rotated = 10}); }),
            "[rotary] rotated 10 is invalid: must be in 0…8");
  Context ctx;
  AttentionCall<float> call;
  EXPECT_EQ(error_of([&] { Rotary<>(RotaryConfig{.head_width = 8}).attend(ctx, 1, 1, {.first = -1}, call); }),
            "[rotary] position -1 is negative");
  const Attention<float, RotaryHeads<float>> attention({.width = 8, .heads = 1});
  const Tensor<float, 3> x(Shape{1, 2, 8});
  EXPECT_NE(error_of([&] { attention(ctx, x); }).find("[rotary] positions"), std::string::npos)
      << "nobody gave it positions";
}

// Two independent switches: the paper's layout and divisor, and tensor2tensor's.
TEST(SinusoidCases, Layouts) {
  const auto row = [](Index width, const SinusoidLayout& layout) {
    const Sinusoidal<double> position({.halves = layout.halves, .inclusive = layout.inclusive});
    Context ctx;
    const Tensor<double, 3> zeros(Shape{Index{1}, Index{1}, width});
    const auto y = position(ctx, zeros, 1);
    return std::vector<double>(y.data(), y.data() + width);
  };
  const auto expect = [](const std::vector<double>& got, const std::vector<double>& want) {
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 6e-9) << i;
  };
  expect(row(4, {}), {0.84147098, 0.54030231, 0.00999983, 0.99995000});
  expect(row(4, {.halves = true, .inclusive = true}), {0.84147098, 1.0e-4, 0.54030231, 0.999999995});
  expect(row(4, {.halves = true}), {0.84147098, 0.00999983, 0.54030231, 0.99995000});
  expect(row(4, {.inclusive = true}), {0.84147098, 0.54030231, 1.0e-4, 0.999999995});
  expect(row(5, {}), {0.84147098, 0.54030231, 0.02511622, 0.99968454, 6.3095730e-4});
  expect(row(5, {.halves = true}), {0.84147098, 0.02511622, 0.54030231, 0.99968454, 0});
}

TEST(AttentionCases, RefusesWhatItWouldIgnore) {
  const TransformerXlAttention<float> attention({.width = 8, .heads = 2});
  const Tensor<float, 3> x(Shape{1, 3, 8});
  Context ctx;
  EXPECT_EQ(error_of([&] { attention(ctx, x, {.mask = {.causal = true, .prefixes = lengths({2})}}); }),
            "[transformer_xl] the mask must be causal, without prefixes: there is no r for keys after the query");
  EXPECT_EQ(error_of([] { RelativeBuckets{.count = 2}.validate(); }),
            "[relative] cannot put distances up to 128 into 2 buckets");
  EXPECT_EQ(error_of([] {
              RelativeBuckets{32, 8, true}.validate();
            }),
            "[relative] cannot put distances up to 8 into 32 buckets");
  const Tensor<float, 4> heads_of_x(Shape{1, 3, 1, 4}), position(Shape{1, 3, 1, 4});
  const Tensor<float, 3> table(Shape{1, 4, 3});
  EXPECT_NE(error_of([&] {
              op::attention<float>(ctx, heads_of_x.view(), heads_of_x.view(), heads_of_x.view(), {},
                                   op::RelativeProductScore<float>{position, table, 2, 1});
            }).find("do not reach 2 tokens back and 2 forth"),
            std::string::npos);
  Tensor<float, 4> sums(Shape{1, 1, 1, 3});
  EXPECT_NE(error_of([&] {
              op::attention<float>(ctx, heads_of_x.view(), heads_of_x.view(), heads_of_x.view(), {},
                                   op::DistanceSums<float>{{}, sums, 1});
            }).find("sums of distances"),
            std::string::npos);
}

TEST(AlibiCases, Slopes) {
  const auto slopes = [](Index count) {
    std::vector<double> result;
    for (Index h = 0; h < count; ++h) result.push_back(alibi_slope(h, count));
    return result;
  };
  EXPECT_EQ(slopes(8), (std::vector<double>{0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125, 0.00390625}));
  EXPECT_EQ(slopes(6), (std::vector<double>{0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125}));
  EXPECT_EQ(slopes(3), (std::vector<double>{0.0625, 0.00390625, 0.25}));
  const auto twelve = slopes(12);
  const double last[] = {0.70710678, 0.35355339, 0.1767767, 0.08838835};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(twelve[8 + i], last[i], 1e-8);
}

TEST(RelativeCases, Buckets) {
  const RelativeBuckets both{32, 128, true}, before{32, 128, false};
  const std::pair<Index, Index> encoder[] = {{0, 0},    {-1, 1},   {1, 17},    {-8, 8},   {8, 24},     {-16, 10},
                                             {-64, 14}, {-91, 15}, {-128, 15}, {128, 31}, {-5000, 15}, {5000, 31}};
  for (const auto& [distance, bucket] : encoder) EXPECT_EQ(both(distance), bucket) << distance;
  const std::pair<Index, Index> decoder[] = {{0, 0},    {1, 0},    {500, 0},   {-16, 16},  {-32, 21},
                                             {-64, 26}, {-90, 29}, {-127, 31}, {-5000, 31}};
  for (const auto& [distance, bucket] : decoder) EXPECT_EQ(before(distance), bucket) << distance;
}

// The first rows of the table belong to no position: 512 tokens fit into 514 rows, the next is an error.
TEST(LearnedCases, OffsetAndLimit) {
  Learned<float, 2> learned({.width = 1, .max_positions = 512});
  EXPECT_EQ(learned.weight.extent(0), 514);
  for (Index i = 0; i < 514; ++i) learned.weight(i, 0) = static_cast<float>(i);
  Context ctx;
  const Tensor<float, 3> x(Shape{1, 6, 1});
  Tensor<Index, 2> given(Shape{1, 6});
  for (Index n = 0; n < 4; ++n) given(0, n) = n;
  const auto y = learned.embed(ctx, x, {.given = given});
  const float want[] = {2, 3, 4, 5, 2, 2};
  for (Index n = 0; n < 6; ++n) EXPECT_EQ(y(0, n, 0), want[n]);
  EXPECT_EQ(learned.embed(ctx, x, {.first = 506})(0, 5, 0), 513);
  EXPECT_EQ(error_of([&] { learned.embed(ctx, x, {.first = 507}); }),
            "[learned] position 512 of token 5 is past the last of 512");
}

// Scores q·k of 8 and 0 with the default scale 1/√d_kv, not 1/√d_model; and T5's inner width is not the model's.
TEST(AttentionCases, ScaleAndInnerWidth) {
  const Attention<float> attention({.width = 512, .heads = 6, .head_width = 64});
  EXPECT_EQ(attention.scale, 0.125);
  EXPECT_EQ(attention.query.weight.shape(), (Shape<2>{384, 512}));
  EXPECT_EQ(attention.output.weight.shape(), (Shape<2>{512, 384}));
  const Attention<NoValue> without({.width = 8, .heads = 2, .key_bias = false, .output_bias = false});
  EXPECT_EQ(parameter_count(without), 4 * 64 + 2 * 8) << "biases of queries and values alone";
}

TEST(AttentionCases, OneKeyHeadPerQueryHeadIsMultiHead) {
  Attention<double> plain({.width = 12, .heads = 3}), said({.width = 12, .heads = 3, .kv_heads = 3});
  randomize(plain, 1), randomize(said, 1);
  const auto x = random_tensor<double>(Shape{2, 5, 12}, 2);
  Context ctx;
  EXPECT_TRUE(identical(plain(ctx, x), said(ctx, x)));
  // One key head for all is every head with a copy of it.
  Attention<double> one({.width = 12, .heads = 3, .kv_heads = 1}), copies({.width = 12, .heads = 3});
  randomize(one, 1);
  walk(
      [](const Leaf&, auto& to, const auto& from) {
        for (Index i = 0; i < to.size(); ++i) to.data()[i] = from.data()[i];
      },
      copies.query, one.query);
  walk(
      [](const Leaf&, auto& to, const auto& from) {
        for (Index i = 0; i < to.size(); ++i) to.data()[i] = from.data()[i];
      },
      copies.output, one.output);
  for (Index h = 0; h < 3; ++h)
    for (auto part : {&Attention<double>::key, &Attention<double>::value}) {
      std::copy_n((one.*part).weight.view().data(), 48, (copies.*part).weight.data() + h * 48);
      std::copy_n((one.*part).bias.data(), 4, (copies.*part).bias.data() + h * 4);
    }
  const auto mqa = one(ctx, x), mha = copies(ctx, x);
  for (Index i = 0; i < mqa.size(); ++i) ASSERT_NEAR(mqa.data()[i], mha.data()[i], 1e-14);
}

TEST(FeedForwardCases, GatesCostNoMoreAtTwoThirds) {
  const Mlp<NoValue> plain(MlpConfig{768, 3072, false});
  const SwiGlu<NoValue> gated(GatedMlpConfig{768, gated_hidden(3072)});
  EXPECT_EQ(parameter_count(plain), parameter_count(gated));
  EXPECT_EQ(gated_hidden(4 * 4096, 256), 11008) << "LLaMA 7B";
}

}  // namespace eigenformer::test
