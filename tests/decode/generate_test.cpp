// Generation from a decoder-only model: what it would say one full pass at a time.
#include "eigenformer/decode/generate.hpp"

#include "eigenformer/model/decoders.hpp"
#include "support/error.hpp"
#include "support/tensors.hpp"

namespace eigenformer::test {
namespace {

Llama<float> small_decoder_model() {
  Llama<float> model({.vocabulary = 13, .layers = 2, .block = {.width = 16, .hidden = 24, .heads = 4, .dropout = 0, .key_heads = 2}});
  randomize(model, 3);
  return model;
}

}  // namespace

TEST(Generate, IsTheMostProbableTokenOfFullPasses) {
  const auto model = small_decoder_model();
  const auto prompts = random_ids(Shape{4, 5}, 0, 13, 1);
  Context ctx;
  const auto results = generate(ctx, model, prompts.view(), {.max_tokens = 90});
  for (Index b = 0; b < 4; ++b) {
    std::vector<Id> ids(&prompts(b, 0), &prompts(b, 0) + 5);
    const auto& result = results[static_cast<std::size_t>(b)];
    ASSERT_EQ(result.size(), 90u);
    for (const Id id : result) {
      const auto logits = model(ctx, {.ids = ConstView<Id, 2>(ids.data(), Shape{Index{1}, static_cast<Index>(ids.size())})});
      const float* const row = &logits(0, logits.extent(1) - 1, 0);
      ASSERT_EQ(id, static_cast<Id>(std::max_element(row, row + 13) - row)) << ids.size();
      ids.push_back(id);
      ctx.reset();
    }
  }
}

TEST(Generate, EndsAndLimits) {
  const auto model = small_decoder_model();
  const auto prompts = random_ids(Shape{3, 2}, 0, 13, 1);
  Context ctx;
  const auto all = generate(ctx, model, prompts.view(), {.max_tokens = 20});
  const Id end = all[0][4];
  const auto some = generate(ctx, model, prompts.view(), {.max_tokens = 20, .end = end});
  for (std::size_t b = 0; b < 3; ++b) {
    const auto stop = std::find(all[b].begin(), all[b].end(), end);
    EXPECT_EQ(some[b], (std::vector<Id>(all[b].begin(), stop)));
  }
  EXPECT_EQ(generate(ctx, model, prompts.view(), {.max_tokens = 0})[2].size(), 0u);
  const Tensor<Id, 2> empty(Shape{2, 0});
  EXPECT_EQ(error_of([&] { generate(ctx, model, empty.view()); }), "[generate] a prompt needs at least one token");
  Tape tape;
  ctx.tape = &tape;
  EXPECT_EQ(error_of([&] { generate(ctx, model, prompts.view()); }), "[language_model] cached passes are neither recorded nor with dropout");
}

}  // namespace eigenformer::test
