// Translation by the paper's base model from a cache: 32 sources of 25 tokens, 25 tokens each, greedily and with beams.
#include "../support/machine.hpp"
#include "base.hpp"
#include "eigenformer/decode/beam.hpp"
#include "eigenformer/decode/generate.hpp"

namespace eigenformer::bench {
namespace {

constexpr Index sentences = 32, tokens = 25;

/// FLOPs of the encoder, the keys and values of its output, and of every step: projections, attention, feed-forward and
/// logits.
double work(Index beams) {
  const auto s = static_cast<double>(sentences), n = static_cast<double>(tokens);
  const double rows = s * (1 + (n - 1) * static_cast<double>(beams));  // the first step has one beam
  const double steps = base.projections(rows, 6) + 2 * base.attention(1, rows, n) * 0.75 +
                       base.feed_forward(rows);  // it sees n/2 tokens and n of the source
  return 6 * (base.encoder_layer(s, n) + base.projections(s * n, 2) + steps) + 2 * rows * base.width * vocabulary;
}

const int registered = [] {
  for (const int threads : {1, 2})
    for (const Format format : all_formats)
      for (const Index beams : {1, 4})
        add(on_threads(named("translate/base", format) + "/batch:32/beam:" + std::to_string(beams), threads),
            [=](benchmark::State& state) {
              const auto& model = packed_base(format);
              const auto source = random_ids(sentences, tokens, 1);
              Context ctx{Threads(threads)};
              const auto run_once = [&] {
                ctx.reset();
                if (beams == 1) generate(ctx, model, source, {}, {.max_tokens = tokens, .bos = 1});
                else beam_search(ctx, model, source, {}, {.max_tokens = tokens, .bos = 1, .beams = beams});
              };
              settle(ctx, run_once);
              run_flops(state, work(beams), threads, run_once, format);
              state.counters["tokens"] = benchmark::Counter(static_cast<double>(sentences * tokens),
                                                            benchmark::Counter::kIsIterationInvariantRate);
            });
  return 0;
}();

}  // namespace
}  // namespace eigenformer::bench
