// Every layer's derivative against differences. A new layer joins by one line.
#include "eigenformer/layer/attention/attention.hpp"
#include "eigenformer/layer/attention/relative_attention.hpp"
#include "eigenformer/layer/attention/transformer_xl_attention.hpp"
#include "eigenformer/layer/embedding.hpp"
#include "eigenformer/layer/ffn/gated_mlp.hpp"
#include "eigenformer/layer/ffn/mlp.hpp"
#include "eigenformer/layer/linear.hpp"
#include "eigenformer/layer/norm/dynamic_tanh.hpp"
#include "eigenformer/layer/norm/layer_norm.hpp"
#include "eigenformer/layer/norm/rms_norm.hpp"
#include "eigenformer/layer/norm/scale_norm.hpp"
#include "eigenformer/layer/position/learned.hpp"
#include "eigenformer/layer/position/rotary.hpp"
#include "eigenformer/layer/position/sinusoidal.hpp"
#include "support/gradient_check.hpp"

namespace eigenformer::test {
namespace {

// What the calls below attend to: B 2, N 4, M 5, D 6.
const Shape x_shape{2, 4, 6}, memory_shape{2, 5, 6};
const auto x_lengths = lengths({4, 2}), memory_lengths = lengths({3, 5});
const auto some = matrix<bool>({{1, 0, 1, 0, 1}, {0, 0, 0, 0, 0}, {1, 1, 1, 1, 1}, {0, 1, 0, 0, 0}});  // row 1: nothing
const auto ids = matrix<Id>({{0, 3, 3, 1}, {2, 0, 3, 1}});

auto attend(auto make_call) {
  return [=](Context& ctx, const auto& m, const Inputs& in) { return m(ctx, in[0], make_call(in)); };
}
const AttentionConfig heads{.width = 6, .heads = 2}, grouped{.width = 6, .heads = 4, .kv_heads = 2, .head_width = 3},
    dropped{.width = 6, .heads = 2, .dropout = 0.4};
using Call = AttentionCall<double>;

const auto apply = [](Context& ctx, const auto& m, const Inputs& in) { return m(ctx, in[0]); };
const auto of_residual = [](Context& ctx, const auto& m, const Inputs& in) {
  return m.of_residual(ctx, in[0], in[1], 0.4);
};

/// Any attention's config.
template <class Layer>
const typename Layer::Config wide{.width = 6, .heads = 4, .kv_heads = 2, .head_width = 4};
using OfRotary = Attention<double, RotaryHeads<double>>;
using OfQkNorm = Attention<double, QkNorm<double, RmsNorm<double>, PlainHeads<double>>>;
using OfAlibi = Attention<double, PlainHeads<double>, AlibiScores<double>>;
using OfCaps = Attention<double, PlainHeads<double>, CappedScores<double>>;
auto with_rotary(RotaryConfig config) {
  return [=](Context& ctx, const auto& m, const Inputs& in) {
    Call call{.mask = {.causal = true}};
    Rotary<double>(config).attend(ctx, 2, 4, {.first = 3}, call);
    return m(ctx, in[0], call);
  };
}

class LayerGradient : public testing::TestWithParam<GradientCase> {};
TEST_P(LayerGradient, MatchesDifferences) { GetParam().check(); }

// clang-format off
INSTANTIATE_TEST_SUITE_P(, LayerGradient, testing::Values(
    gradient_of<Linear<double>>("Linear", LinearConfig{6, 5}, {x_shape}, apply),
    gradient_of<Linear<double>>("LinearWithoutBias", LinearConfig{6, 5, false}, {x_shape}, apply),
    gradient_of<LayerNorm<double>>("LayerNorm", LayerNormConfig{6}, {x_shape}, apply),
    gradient_of<LayerNorm<double>>("LayerNormWithoutBias", LayerNormConfig{.width = 6, .bias = false}, {x_shape}, apply),
    gradient_of<LayerNorm<double>>("LayerNormOfResidual", LayerNormConfig{6}, {x_shape, x_shape}, of_residual),
    gradient_of<RmsNorm<double>>("RmsNorm", RmsNormConfig{6}, {x_shape}, apply),
    gradient_of<RmsNorm<double, true>>("RmsNormOnePlus", RmsNormConfig{6}, {x_shape}, apply),
    gradient_of<RmsNorm<double>>("RmsNormOfResidual", RmsNormConfig{6}, {x_shape, x_shape}, of_residual),
    gradient_of<Mlp<double>>("Mlp", MlpConfig{6, 9}, {x_shape}, apply),
    gradient_of<Mlp<double>>("MlpWithoutBias", MlpConfig{6, 9, false}, {x_shape}, apply),
    gradient_of<Mlp<double, Gelu>>("MlpGelu", MlpConfig{6, 9}, {x_shape}, apply),
    gradient_of<Mlp<double, GeluTanh>>("MlpGeluTanh", MlpConfig{6, 9}, {x_shape}, apply),
    gradient_of<Mlp<double, SquaredRelu>>("MlpSquaredRelu", MlpConfig{6, 9}, {x_shape}, apply),
    gradient_of<Mlp<double, Tanh>>("MlpTanh", MlpConfig{6, 9}, {x_shape}, apply),
    gradient_of<SwiGlu<double>>("SwiGlu", GatedMlpConfig{6, 9}, {x_shape}, apply),
    gradient_of<SwiGlu<double>>("SwiGluWithBias", GatedMlpConfig{6, 9, true}, {x_shape}, apply),
    gradient_of<GeGlu<double>>("GeGlu", GatedMlpConfig{6, 9}, {x_shape}, apply),
    gradient_of<ReGlu<double>>("ReGlu", GatedMlpConfig{6, 9}, {x_shape}, apply),
    gradient_of<Glu<double>>("Glu", GatedMlpConfig{6, 9}, {x_shape}, apply),
    gradient_of<Embedding<double>>("Embedding", EmbeddingConfig{5, 6}, {}, [](auto& ctx, auto& m, auto&) { return m(ctx, ids); }),
    gradient_of<Embedding<double>>("EmbeddingTiedToLogits", EmbeddingConfig{5, 6}, {x_shape}, [](auto& ctx, auto& m, auto& in) { return m.logits(ctx, op::add(ctx, m(ctx, ids), in[0])); }),
    gradient_of<Embedding<double>>("EmbeddingWithPositions", EmbeddingConfig{5, 6}, {}, [](auto& ctx, auto& m, auto&) { return Sinusoidal<double>()(ctx, m(ctx, ids), 3); }),
    gradient_of<Attention<double>>("Attention", heads, {x_shape}, attend([](auto&) { return Call{}; }), {"key.bias"}),
    gradient_of<Attention<double>>("AttentionCausal", heads, {x_shape}, attend([](auto&) { return Call{.mask = {.causal = true}}; }), {"key.bias"}),
    gradient_of<Attention<double>>("AttentionLengths", heads, {x_shape}, attend([](auto&) { return Call{.mask = {.key_lengths = x_lengths, .query_lengths = x_lengths}}; }), {"key.bias"}),
    gradient_of<Attention<double>>("AttentionCross", heads, {x_shape, memory_shape}, attend([](auto& in) { return Call{.memory = in[1]}; }), {"key.bias"}),
    gradient_of<Attention<double>>("AttentionCrossLengths", heads, {x_shape, memory_shape}, attend([](auto& in) { return Call{.memory = in[1], .mask = {.key_lengths = memory_lengths}}; }), {"key.bias"}),
    gradient_of<Attention<double>>("AttentionCrossCausal", heads, {x_shape, memory_shape}, attend([](auto& in) { return Call{.memory = in[1], .mask = {.causal = true}}; }), {"key.bias"}),
    gradient_of<Attention<double>>("AttentionMasked", heads, {x_shape, memory_shape}, attend([](auto& in) { return Call{.memory = in[1], .mask = {.allowed = some.view()}}; }), {"key.bias"}),
    gradient_of<Attention<double>>("AttentionGroupedHeads", grouped, {x_shape, memory_shape}, attend([](auto& in) { return Call{.memory = in[1]}; }), {"key.bias"}),
    gradient_of<Attention<double>>("AttentionWindow", AttentionConfig{.width = 6, .heads = 2, .window = 2}, {x_shape}, attend([](auto&) { return Call{.mask = {.causal = true}}; }), {"key.bias"}),
    gradient_of<OfRotary>("AttentionRotary", wide<OfRotary>, {x_shape}, with_rotary({.head_width = 4})),
    gradient_of<OfRotary>("AttentionRotaryInterleaved", wide<OfRotary>, {x_shape}, with_rotary({.head_width = 4, .rotated = 2, .layout = RotaryLayout::interleaved})),
    gradient_of<OfQkNorm>("AttentionQkNorm", wide<OfQkNorm>, {x_shape}, attend([](auto&) { return Call{.mask = {.causal = true}}; })),
    gradient_of<OfAlibi>("AttentionAlibi", wide<OfAlibi>, {x_shape}, attend([](auto&) { return Call{}; }), {"key.bias"}),
    gradient_of<OfCaps>("AttentionCapped", OfCaps::Config{.width = 6, .heads = 4, .kv_heads = 2, .head_width = 4, .scores = {.cap = 1.5}}, {x_shape}, attend([](auto&) { return Call{.mask = {.causal = true}}; })),
    gradient_of<RelativeAttention<double>>("RelativeAttention", RelativeAttentionConfig{.width = 6, .heads = 2, .clip = 2}, {x_shape}, attend([](auto&) { return Call{.mask = {.causal = true}}; }), {"key.bias"}),
    gradient_of<RelativeAttention<double>>("RelativeAttentionDropout", RelativeAttentionConfig{.width = 6, .heads = 4, .kv_heads = 2, .head_width = 3, .dropout = 0.4, .clip = 1}, {x_shape}, attend([](auto&) { return Call{}; }), {"key.bias"}),
    gradient_of<TransformerXlAttention<double>>("TransformerXlAttention", TransformerXlAttentionConfig{.width = 6, .heads = 2}, {x_shape}, attend([](auto&) { return Call{.mask = {.causal = true}}; }), {"key.bias"}),
    gradient_of<Attention<double>>("AttentionSinks", AttentionConfig{.width = 6, .heads = 2, .sinks = true}, {x_shape}, attend([](auto&) { return Call{.mask = {.causal = true}}; })),
    gradient_of<Learned<double>>("Learned", LearnedConfig{.width = 6, .max_positions = 4}, {x_shape}, [](auto& ctx, auto& m, auto& in) { return m.embed(ctx, in[0], {}); }),
    gradient_of<ScaleNorm<double>>("ScaleNorm", ScaleNormConfig{6}, {x_shape}, apply),
    gradient_of<DynamicTanh<double>>("DynamicTanh", DynamicTanhConfig{6}, {x_shape}, apply),
    gradient_of<Attention<double>>("AttentionDropout", dropped, {x_shape}, attend([](auto&) { return Call{.mask = {.causal = true}}; }), {"key.bias"})
), gradient_case_name);
// clang-format on

}  // namespace
}  // namespace eigenformer::test
