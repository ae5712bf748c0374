// A LLaMA of 63 M weights: a prompt through the whole model, logits of its last token only.
#include "../support/machine.hpp"
#include "eigenformer/core/initialize.hpp"
#include "eigenformer/model/decoders.hpp"
#include "eigenformer/op/weight.hpp"

namespace eigenformer::bench {
namespace {

LanguageModelConfig llama63m() {
  return {.vocabulary = 8192, .layers = 8, .block = {.width = 768, .hidden = 2048, .heads = 12, .dropout = 0, .key_heads = 4, .attention_bias = false, .norm_epsilon = 1e-5},
          .tied = false};
}

/// FLOPs of the layers: products with their weights, and half of the scores and mixes (causal).
double layers_flops(const LanguageModelConfig& config, double tokens) {
  const BlockConfig& block = config.block;
  const auto width = static_cast<double>(block.width), heads = static_cast<double>(block.heads), keys = static_cast<double>(block.key_heads);
  const double projections = 2 * width * width * (1 + keys / heads), feed_forward = 3 * width * static_cast<double>(block.hidden);
  return static_cast<double>(config.layers) * tokens * (2 * (projections + feed_forward) + 2 * tokens * width);
}

const int registered = [] {
  for (const int threads : {1, 2})
    for (const Index tokens : {128, 512})
      add(on_threads("prefill/llama63m/N:" + std::to_string(tokens), threads), [=](benchmark::State& state) {
        static const Llama<float> model = [] {
          Llama<float> made(llama63m());
          initialize(made, 1);
          pack(Threads(), made);
          return made;
        }();
        Tensor<Id, 2> ids(Shape{Index{1}, tokens});
        RandomSequence random(1);
        std::generate_n(ids.data(), ids.size(), [&] { return static_cast<Id>(random.below(8192)); });
        Context ctx{Threads(threads)};
        const auto run_once = [&] {
          ctx.reset();
          model.logits(ctx, model.hidden(ctx, {.ids = ids}).slice(1, tokens - 1, 1));
        };
        run_once(), run_once();
        run_flops(state, layers_flops(llama63m(), static_cast<double>(tokens)), threads, run_once);
        state.counters["tokens"] = benchmark::Counter(static_cast<double>(tokens), benchmark::Counter::kIsIterationInvariantRate);
      });
  return 0;
}();

}  // namespace
}  // namespace eigenformer::bench
