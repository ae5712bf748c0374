// How gradients run through a deep stack at initialisation (Xiong et al. 2020): towards the output of a Post-LN decoder
// they grow, along a Pre-LN one they stay level. Post-LN encoders do not show it (Liu et al. 2020, section 4.1): what
// the decoder's attention to the memory adds to the residual stream makes its norms scale the way back down, block by
// block.
#include <iostream>
#include <vector>

#include "eigenformer/block/pre_norm.hpp"
#include "eigenformer/core/initialize.hpp"
#include "eigenformer/model/encoder_decoder.hpp"
#include "eigenformer/op/cross_entropy.hpp"
#include "eigenformer/train/clip.hpp"
#include "support/tensors.hpp"

namespace eigenformer::test {
namespace {

/// The norm of the gradient of each of 12 decoder blocks, the first first.
template <class Residual>
std::vector<double> gradient_norms(const char* name) {
  const Id vocabulary = 100;
  EncoderDecoder<Residual> model(
      EncoderDecoder<>::Config{.source_vocabulary = vocabulary,
                               .target_vocabulary = vocabulary,
                               .encoder_layers = 6,
                               .decoder_layers = 12,
                               .block = {.width = 64, .hidden = 256, .heads = 4, .dropout = 0}});
  initialize(model, 1);
  auto gradient = zeros_like(model);
  Tape tape;
  Context ctx;
  ctx.tape = &tape;
  tape.watch(model, gradient);
  const auto source = random_ids(Shape{4, 16}, 0, vocabulary, 2), target = random_ids(Shape{4, 16}, 0, vocabulary, 3),
             labels = random_ids(Shape{4, 16}, 0, vocabulary, 4);
  const Loss loss = op::cross_entropy(ctx, model(ctx, {.source = source, .target = target}), labels);
  backward(ctx, loss.sum, 1 / static_cast<double>(loss.tokens));

  std::vector<double> norms;
  std::cout << name << ':';
  for (const auto& block : gradient.decoder.blocks) std::cout << ' ' << norms.emplace_back(global_norm(ctx, block));
  std::cout << "; last / first = " << norms.back() / norms.front() << '\n';
  return norms;
}

TEST(GradientNorm, GrowsTowardsTheOutputOfAPostNormStack) {
  const auto norms = gradient_norms<PostNorm<float>>("Post-LN");
  EXPECT_GT(norms.back() / norms.front(), 10);
  for (std::size_t i = 3; i < norms.size(); i += 3) EXPECT_GT(norms[i], norms[i - 3]) << i;
}

TEST(GradientNorm, StaysLevelAlongAPreNormStack) {
  const auto norms = gradient_norms<PreNorm<float>>("Pre-LN");
  EXPECT_GT(norms.back() / norms.front(), 1.0 / 3);
  EXPECT_LT(norms.back() / norms.front(), 3);
}

}  // namespace
}  // namespace eigenformer::test
