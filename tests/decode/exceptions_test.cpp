// Training and decoding with the floating-point exceptions that numerical programs have trapped: any would end this
// program.
#include <gtest/gtest.h>

#include <algorithm>
#include <cfenv>
#include <vector>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "eigenformer/block/pre_norm.hpp"
#include "eigenformer/core/initialize.hpp"
#include "eigenformer/decode/beam.hpp"
#include "eigenformer/decode/generate.hpp"
#include "eigenformer/model/decoders.hpp"
#include "eigenformer/model/encoder_decoder.hpp"
#include "eigenformer/op/cross_entropy.hpp"
#include "eigenformer/train/trainer.hpp"
#include "support/exceptions.hpp"
#include "support/tensors.hpp"

namespace eigenformer::test {
namespace {

/// Traps for its lifetime, in this thread and in those that it starts.
class Traps {
 public:
#ifdef __GLIBC__
  static constexpr bool supported = true;
  Traps() {
    mallopt(M_PERTURB, 0x80);  // new memory holds signalling NaN: nothing computes with what nobody has written
    std::feclearexcept(FE_ALL_EXCEPT), feenableexcept(trapped);
  }
  ~Traps() { fedisableexcept(trapped); }
#else
  static constexpr bool supported = false;
  Traps() = default;
  ~Traps() = default;
#endif
  Traps(const Traps&) = delete;
  Traps& operator=(const Traps&) = delete;
};

TEST(TrapsTest, TrainingAndGeneratingWithADecoder) {
  if (!Traps::supported) GTEST_SKIP() << "nothing can be trapped here";
  Llama<float> model({.vocabulary = 40,
                      .layers = 2,
                      .block = {.width = 16, .hidden = 24, .heads = 4, .dropout = 0, .attention = {.kv_heads = 2}}});
  initialize(model, 1);
  const auto ids = random_ids(Shape{3, 20}, 0, 40, 1);
  auto next = random_ids(Shape{3, 20}, 0, 40, 2);
  std::fill_n(next.data() + 20, 20, -100);  // a sequence that counts nothing
  const auto sizes = lengths({20, 7, 0});
  const Traps traps;
  Trainer trainer(std::move(model), {.learning_rate = ConstantRate{1e-3}, .clip = 1.0}, Threads(2));
  for (int step = 0; step < 3; ++step) {
    trainer.accumulate([&](Context& ctx, const Llama<float>& m) {
      return op::cross_entropy(ctx, m(ctx, {.ids = ids, .lengths = sizes}), next, {.smoothing = 0.1});
    });
    ASSERT_FALSE(trainer.step().skipped);
  }
  Context ctx{Threads(2)};
  const std::vector<std::vector<Id>> prompts{{3}, {1, 4, 1, 5, 9}};
  const TokenRules rules{.repetition_penalty = 1.3, .no_repeat = 2, .suppressed = {5}};
  generate(ctx, trainer.model, prompts, {.max_tokens = 20, .eos = {7}, .rules = rules});
  generate(ctx, trainer.model, prompts,
           {.max_tokens = 20,
            .eos = {7},
            .sampling = Sampling{.temperature = 0.7, .top_k = 10, .top_p = 0.9, .min_p = 0.01, .seed = 1},
            .rules = rules,
            .log_probabilities = true});
  for (const Draft& draft : {Draft(&trainer.model), Draft(LookUp{})})
    generate(ctx, trainer.model, prompts, {.max_tokens = 20, .eos = {7}, .rules = rules, .draft = draft});
  beam_search(ctx, trainer.model, prompts,
              {.max_tokens = 12, .eos = {7}, .beams = 4, .n_best = 3, .penalty = LengthPenalty::power, .rules = rules});
}

TEST(TrapsTest, TrainingAndGeneratingWithAnEncoderDecoder) {
  if (!Traps::supported) GTEST_SKIP() << "nothing can be trapped here";
  using Model = EncoderDecoder<PreNorm<float>>;
  Model model(EncoderDecoder<>::Config{.source_vocabulary = 40,
                                       .target_vocabulary = 40,
                                       .encoder_layers = 1,
                                       .decoder_layers = 2,
                                       .block = {.width = 16, .hidden = 24, .heads = 4, .dropout = 0.1}});
  initialize(model, 1);
  const auto source = random_ids(Shape{3, 9}, 0, 40, 1), target = random_ids(Shape{3, 5}, 0, 40, 2),
             next = random_ids(Shape{3, 5}, 0, 40, 3);
  const auto sizes = lengths({9, 4, 0}), target_sizes = lengths({5, 0, 2});
  const Traps traps;
  Trainer trainer(std::move(model), {.learning_rate = ConstantRate{1e-3}, .clip = 1.0}, Threads(2));
  for (int step = 0; step < 3; ++step) {
    trainer.accumulate([&](Context& ctx, const Model& m) {
      return op::cross_entropy(
          ctx, m(ctx, {.source = source, .source_lengths = sizes, .target = target, .target_lengths = target_sizes}),
          next, {.smoothing = 0.1});
    });
    ASSERT_FALSE(trainer.step().skipped);
  }
  Context ctx{Threads(2)};
  generate(ctx, trainer.model, source, sizes, {.max_tokens = 10, .eos = {7}, .bos = 1});
  beam_search(ctx, trainer.model, source, sizes,
              {.max_tokens = 10, .eos = {7}, .bos = 1, .beams = 3, .penalty = LengthPenalty::wu, .alpha = 0.6});
}

}  // namespace
}  // namespace eigenformer::test
