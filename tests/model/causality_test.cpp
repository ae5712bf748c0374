// What comes later in the target changes nothing before it, not even a bit.
#include "eigenformer/block/pre_norm.hpp"
#include "eigenformer/model/encoder_decoder.hpp"
#include "support/tensors.hpp"

namespace eigenformer::test {
namespace {

template <class Residual>
class Causality : public testing::Test {};
using CausalityArrangements = testing::Types<PreNorm<float>, PostNorm<float>>;
TYPED_TEST_SUITE(Causality, CausalityArrangements);

TYPED_TEST(Causality, HoldsForTheDecoder) {
  const Index batch = 2, tokens = 600, vocabulary = 9;
  EncoderDecoder<TypeParam> model(EncoderDecoder<>::Config{.source_vocabulary = vocabulary,
                                                           .target_vocabulary = vocabulary,
                                                           .encoder_layers = 1,
                                                           .decoder_layers = 2,
                                                           .block = {.width = 12, .hidden = 24, .heads = 3}});
  randomize(model, 1);
  const auto source = random_ids(Shape{batch, Index{5}}, 0, 9, 2), target = random_ids(Shape{batch, tokens}, 0, 9, 3);
  Context ctx;
  const auto logits = model(ctx, {.source = source, .target = target});
  for (const Index from : {1, 31, 32, 300, 511, 512, 599}) {
    auto changed = target;
    for (Index b = 0; b < batch; ++b)
      for (Index n = from; n < tokens; ++n) changed(b, n) = (target(b, n) + 1) % static_cast<Id>(vocabulary);
    const auto others = model(ctx, {.source = source, .target = changed});
    for (Index b = 0; b < batch; ++b) {
      EXPECT_TRUE(identical(others[b].slice(0, 0, from), logits[b].slice(0, 0, from))) << from;
      EXPECT_GE(difference(others[b].slice(0, from, tokens - from), logits[b].slice(0, from, tokens - from)), 0.1)
          << from;
    }
  }
}

}  // namespace
}  // namespace eigenformer::test
