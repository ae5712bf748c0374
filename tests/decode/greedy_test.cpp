// Greedy decoding: on weights set by hand, and on a model that has just learnt to copy.
#include "eigenformer/decode/greedy.hpp"

#include <vector>

#include "eigenformer/block/pre_norm.hpp"
#include "eigenformer/core/initialize.hpp"
#include "eigenformer/model/encoder_decoder.hpp"
#include "eigenformer/train/trainer.hpp"
#include "support/tensors.hpp"

namespace eigenformer::test {
namespace {

using Sequences = std::vector<std::vector<Id>>;

/// After token t comes t + 1, whatever the source: sublayers are silent, tokens are far apart unit vectors, and the
/// head has a one where they follow each other.
class Counting : public testing::Test {
 protected:
  Counting()
      : model(EncoderDecoderConfig{.source_vocabulary = 8,
                                   .target_vocabulary = 8,
                                   .encoder_layers = 1,
                                   .decoder_layers = 1,
                                   .block = {.width = 8, .hidden = 8, .heads = 2},
                                   .sharing = Sharing::none}) {
    walk([](const std::string&, const Leaf& leaf,
            auto& x) { std::fill_n(x.data(), x.size(), leaf.init == Init::ones ? 1.0f : 0.0f); },
         model);
    for (Index t = 0; t < 8; ++t) model.target_embedding->weight(t, t) = 100;
    for (Index t = 0; t + 1 < 8; ++t) model.head->weight(t + 1, t) = 1;
  }

  EncoderDecoder<PostNorm<float>> model;
  const Tensor<Id, 2> source{Shape{3, 4}};
  Context ctx;
};

TEST_F(Counting, EndsBeforeTheEndToken) {
  EXPECT_EQ(greedy(ctx, model, source, {}, {.begin = 3, .end = 7}), (Sequences{{4, 5, 6}, {4, 5, 6}, {4, 5, 6}}));
  EXPECT_EQ(greedy(ctx, model, source, {}, {.begin = 6, .end = 7}), (Sequences(3)));
}

TEST_F(Counting, EndsAtTheLimit) {
  EXPECT_EQ(greedy(ctx, model, source, {}, {.begin = 1, .end = 7, .max_tokens = 3}),
            (Sequences{{2, 3, 4}, {2, 3, 4}, {2, 3, 4}}));
  EXPECT_EQ(greedy(ctx, model, source, {}, {.begin = 1, .end = 7, .max_tokens = 0}), (Sequences(3)));
}

TEST_F(Counting, TakesTheLowestOfEqualIds) {
  set_zero(*model.head);
  EXPECT_EQ(greedy(ctx, model, source, {}, {.begin = 1, .end = 7, .max_tokens = 2}),
            (Sequences{{0, 0}, {0, 0}, {0, 0}}));
}

TEST_F(Counting, OfNoSequencesIsEmpty) { EXPECT_TRUE(greedy(ctx, model, Tensor<Id, 2>(Shape{0, 4}), {}).empty()); }

TEST_F(Counting, CannotBeRecorded) {
  Tape tape;
  ctx.tape = &tape;
  EXPECT_THROW(greedy(ctx, model, source, {}), Error);
}

/// Sequences of 1 to 4 tokens 3…7, to be copied; 0 is padding, 1 begins, 2 ends.
struct Batch {
  explicit Batch(Index size, std::uint64_t seed)
      : source(Shape{size, 4}), target(Shape{size, 5}), labels(Shape{size, 5}), lengths(Shape{size}) {
    RandomSequence random(seed);
    for (Index b = 0; b < size; ++b) {
      lengths(b) = 1 + random.below(4);
      target(b, 0) = 1;
      for (Index n = 0; n < lengths(b); ++n)
        source(b, n) = target(b, n + 1) = labels(b, n) = static_cast<Id>(3 + random.below(5));
      labels(b, lengths(b)) = 2;
    }
  }
  std::vector<Id> sequence(Index b) const { return {&source(b, 0), &source(b, 0) + lengths(b)}; }

  Tensor<Id, 2> source, target, labels;  // (B, 4), (B, 5), (B, 5)
  Tensor<Index, 1> lengths;              // (B)
};

TEST(Greedy, CopiesOnceTheModelHasLearntTo) {
  using Model = EncoderDecoder<PreNorm<float>>;
  Model model(EncoderDecoderConfig{.source_vocabulary = 8,
                                   .target_vocabulary = 8,
                                   .encoder_layers = 1,
                                   .decoder_layers = 1,
                                   .block = {.width = 32, .hidden = 64, .heads = 2, .dropout = 0}});
  initialize(model, 1);
  Trainer trainer(model, {.learning_rate = WarmUp{32, 100, 0.5}});
  for (std::uint64_t step = 0; step < 500; ++step) {
    const Batch batch(32, step);
    trainer.accumulate([&](Context& ctx, const Model& m) {
      const auto logits = m(ctx, {.source = batch.source, .source_lengths = batch.lengths, .target = batch.target});
      return op::cross_entropy(ctx, logits, batch.labels, {.ignore = 0});
    });
    trainer.step();
  }

  const Batch fresh(24, 1'000'000);
  Context ctx;
  const Sequences together = greedy(ctx, trainer.model, fresh.source, fresh.lengths, {.max_tokens = 8});
  for (Index b = 0; b < 24; ++b) {
    EXPECT_EQ(together[static_cast<std::size_t>(b)], fresh.sequence(b)) << b;
    const auto alone = fresh.source.view().slice(0, b, 1).slice(1, 0, fresh.lengths(b));
    EXPECT_EQ(greedy(ctx, trainer.model, alone, {}, {.max_tokens = 8}),
              Sequences{together[static_cast<std::size_t>(b)]})
        << b;
  }
}

}  // namespace
}  // namespace eigenformer::test
