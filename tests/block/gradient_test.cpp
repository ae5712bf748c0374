// Every block's derivative against differences. A new block joins by one line.
#include "eigenformer/block/decoder_block.hpp"
#include "eigenformer/block/deep_norm.hpp"
#include "eigenformer/block/encoder_block.hpp"
#include "eigenformer/block/gated_residual.hpp"
#include "eigenformer/block/parallel_block.hpp"
#include "eigenformer/block/post_norm.hpp"
#include "eigenformer/block/pre_norm.hpp"
#include "eigenformer/block/sandwich.hpp"
#include "support/gradient_check.hpp"

namespace eigenformer::test {
namespace {

using Pre = PreNorm<double>;
using Post = PostNorm<double>;

const Shape x_shape{2, 4, 6}, memory_shape{2, 5, 6};  // B 2, N 4, M 5, D 6
const auto x_lengths = lengths({4, 2}), memory_lengths = lengths({3, 5});
const Mask padded{.key_lengths = x_lengths, .query_lengths = x_lengths};
const Mask causal{.causal = true, .key_lengths = x_lengths, .query_lengths = x_lengths};
const Mask to_memory{.key_lengths = memory_lengths, .query_lengths = x_lengths};
/// Any block's config.
template <class Block>
typename Block::Config sizes(double dropout = 0) {
  return {.width = 6, .hidden = 9, .heads = 2, .dropout = dropout};
}

/// A residual connection around something smooth without weights.
const auto around_a_norm = [](Context& ctx, const auto& m, const Inputs& in) {
  return m(ctx, in[0], [&](auto z) { return op::layer_norm(ctx, z, {}, {}, 1); });
};
const auto encode = [](Context& ctx, const auto& m, const Inputs& in) { return m(ctx, in[0], padded); };
const auto decode = [](Context& ctx, const auto& m, const Inputs& in) {
  return m(ctx, in[0], in[1], causal, to_memory);
};

class BlockGradient : public testing::TestWithParam<GradientCase> {};
TEST_P(BlockGradient, MatchesDifferences) { GetParam().check(); }

// clang-format off
INSTANTIATE_TEST_SUITE_P(, BlockGradient, testing::Values(
    gradient_of<Pre>("PreNorm", Pre::Config{6, 0.3}, {x_shape}, around_a_norm),
    gradient_of<Post>("PostNorm", Pre::Config{6, 0.3}, {x_shape}, around_a_norm),
    gradient_of<Sandwich<double>>("Sandwich", Pre::Config{6, 0.3}, {x_shape}, around_a_norm),
    gradient_of<DeepNorm<double>>("DeepNorm", DeepNorm<double>::Config{.width = 6, .dropout = 0.3, .alpha = 1.7}, {x_shape}, around_a_norm),
    gradient_of<LayerScale<double>>("LayerScale", Pre::Config{6, 0.3}, {x_shape}, around_a_norm),
    gradient_of<ReZero<double>>("ReZero", Pre::Config{6, 0.3}, {x_shape}, around_a_norm),
    gradient_of<ParallelBlock<double>>("ParallelBlock", sizes<ParallelBlock<double>>(), {x_shape}, [](auto& ctx, auto& m, auto& in) { return m(ctx, in[0], AttentionCall<double>{.mask = causal}); }, {"key.bias"}),
    gradient_of<EncoderBlock<Pre>>("EncoderBlockPre", sizes<EncoderBlock<Pre>>(), {x_shape}, encode, {"key.bias"}),
    gradient_of<EncoderBlock<Post>>("EncoderBlockPost", sizes<EncoderBlock<Post>>(), {x_shape}, encode, {"key.bias"}),
    gradient_of<EncoderBlock<Pre>>("EncoderBlockPreDropout", sizes<EncoderBlock<Pre>>(0.3), {x_shape}, encode, {"key.bias"}),
    gradient_of<EncoderBlock<Post>>("EncoderBlockPostDropout", sizes<EncoderBlock<Post>>(0.3), {x_shape}, encode, {"key.bias"}),
    gradient_of<DecoderBlock<Pre>>("DecoderBlockPre", sizes<DecoderBlock<Pre>>(), {x_shape, memory_shape}, decode, {"key.bias"}),
    gradient_of<DecoderBlock<Post>>("DecoderBlockPost", sizes<DecoderBlock<Post>>(), {x_shape, memory_shape}, decode, {"key.bias"}),
    gradient_of<DecoderBlock<Pre>>("DecoderBlockPreDropout", sizes<DecoderBlock<Pre>>(0.3), {x_shape, memory_shape}, decode, {"key.bias"}),
    gradient_of<DecoderBlock<Post>>("DecoderBlockPostDropout", sizes<DecoderBlock<Post>>(0.3), {x_shape, memory_shape}, decode, {"key.bias"})
), gradient_case_name);
// clang-format on

}  // namespace
}  // namespace eigenformer::test
