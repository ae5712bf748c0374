// The derivative of stacks and of the whole model with its loss, against differences. A new model joins by one line.
#include "eigenformer/block/pre_norm.hpp"
#include "eigenformer/model/encoder_decoder.hpp"
#include "eigenformer/model/stack.hpp"
#include "eigenformer/op/cross_entropy.hpp"
#include "support/gradient_check.hpp"

namespace eigenformer::test {
namespace {

using Pre = PreNorm<double>;
using Post = PostNorm<double>;

const Shape x_shape{2, 4, 6}, memory_shape{2, 3, 6};  // B 2, N 4, M 3, D 6
const auto x_lengths = lengths({4, 2}), memory_lengths = lengths({2, 3});
const Mask padded{.key_lengths = x_lengths, .query_lengths = x_lengths};
const Mask causal{.causal = true, .key_lengths = x_lengths, .query_lengths = x_lengths};
const Mask to_memory{.key_lengths = memory_lengths, .query_lengths = x_lengths};
const EncoderBlock<>::Config dropped_block{.width = 6, .hidden = 9, .heads = 2, .dropout = 0.1};
const Decoder<>::Config dropped_decoder{2, {.width = 6, .hidden = 9, .heads = 2, .dropout = 0.1}};

const auto source = matrix<Id>({{3, 4, 0}, {5, 3, 4}});
const auto given_target = matrix<Id>({{1, 4, 3, 5}, {1, 5, 0, 0}}),
           wanted_target = matrix<Id>({{4, 3, 5, 2}, {5, 2, 0, 0}});

const auto encode = [](Context& ctx, const auto& m, const Inputs& in) { return m(ctx, in[0], padded); };
const auto decode = [](Context& ctx, const auto& m, const Inputs& in) {
  return m(ctx, in[0], in[1], causal, to_memory);
};
const auto smoothed_loss = [](Context& ctx, const auto& m, const Inputs&) {
  const auto logits =
      m(ctx, {.source = source, .source_lengths = memory_lengths, .target = given_target, .target_lengths = x_lengths});
  return op::cross_entropy(ctx, logits, wanted_target, {.smoothing = 0.1, .ignore = 0}).sum;
};

EncoderDecoder<>::Config whole(Sharing sharing) {
  return {.source_vocabulary = 6,
          .target_vocabulary = 6,
          .encoder_layers = 1,
          .decoder_layers = 1,
          .block = dropped_block,
          .sharing = sharing};
}

class ModelGradient : public testing::TestWithParam<GradientCase> {};
TEST_P(ModelGradient, MatchesDifferences) { GetParam().check(); }

// clang-format off
INSTANTIATE_TEST_SUITE_P(, ModelGradient, testing::Values(
    gradient_of<Encoder<Pre>>("EncoderPre", Encoder<>::Config{2, dropped_block}, {x_shape}, encode, {"key.bias"}),
    gradient_of<Encoder<Post>>("EncoderPost", Encoder<>::Config{2, dropped_block}, {x_shape}, encode, {"key.bias"}),
    gradient_of<Encoder<Post>>("EncoderPostWithFinalNorm", Encoder<>::Config{1, dropped_block, true}, {x_shape}, encode, {"key.bias"}),
    gradient_of<Decoder<Pre>>("DecoderPre", dropped_decoder, {x_shape, memory_shape}, decode, {"key.bias"}),
    gradient_of<Decoder<Post>>("DecoderPost", dropped_decoder, {x_shape, memory_shape}, decode, {"key.bias"}),
    gradient_of<EncoderDecoder<Pre>>("EncoderDecoderPreAllShared", whole(Sharing::all), {}, smoothed_loss, {"key.bias"}),
    gradient_of<EncoderDecoder<Pre>>("EncoderDecoderPreTargetAndOutputShared", whole(Sharing::target_and_output), {}, smoothed_loss, {"key.bias"}),
    gradient_of<EncoderDecoder<Pre>>("EncoderDecoderPreNoneShared", whole(Sharing::none), {}, smoothed_loss, {"key.bias"}),
    gradient_of<EncoderDecoder<Post>>("EncoderDecoderPostAllShared", whole(Sharing::all), {}, smoothed_loss, {"key.bias"}),
    gradient_of<EncoderDecoder<Post>>("EncoderDecoderPostTargetAndOutputShared", whole(Sharing::target_and_output), {}, smoothed_loss, {"key.bias"}),
    gradient_of<EncoderDecoder<Post>>("EncoderDecoderPostNoneShared", whole(Sharing::none), {}, smoothed_loss, {"key.bias"})
), gradient_case_name);
// clang-format on

}  // namespace
}  // namespace eigenformer::test
