// The paper's base model: its encoder, a whole teacher-forced pass, and a training step.
#include <optional>

#include "../support/machine.hpp"
#include "base.hpp"
#include "eigenformer/train/trainer.hpp"

namespace eigenformer::bench {
namespace {

double whole(Index batch, Index memory, Index tokens) {
  const auto b = static_cast<double>(batch), m = static_cast<double>(memory), n = static_cast<double>(tokens);
  return 6 * (base.encoder_layer(b, m) + base.decoder_layer(b, n, m)) + 2 * b * n * base.width * vocabulary;
}

std::string sized(const std::string& name, Index batch, Index tokens, int threads, Format format = Format::scalar) {
  return on_threads(named(name + "/base", format) + "/B:" + std::to_string(batch) + "/N:" + std::to_string(tokens),
                    threads);
}

const int registered = [] {
  for (const int threads : {1, 2}) {
    for (const Format format : all_formats)
      for (const auto& [batch, tokens] : {std::pair<Index, Index>{8, 128}, {1, 512}, {32, 10}})
        add(sized("encoder_forward", batch, tokens, threads, format),
            [=, batch = batch, tokens = tokens](benchmark::State& state) {
              const auto& model = packed_base(format);
              const auto x = normal(Shape{batch, tokens, Index{512}});
              Context ctx{Threads(threads)};
              const auto call = [&] {
                ctx.reset();
                model.encoder(ctx, x, Mask{});
              };
              settle(ctx, call);
              run_flops(state, 6 * base.encoder_layer(static_cast<double>(batch), static_cast<double>(tokens)), threads,
                        call, format);
            });
    for (const bool first : {false, true})
      add(sized(first ? "first_forward" : "full_forward", 8, 128, threads), [=](benchmark::State& state) {
        const auto& model = packed_base();
        const auto source = random_ids(8, 128, 1), target = random_ids(8, 128, 2);
        const Threads pool(threads);
        std::optional<Context> ctx(pool);
        const auto call = [&] {
          if (first) ctx.emplace(pool);  // whose memory is yet to come from the system
          else ctx->reset();
          model(*ctx, {.source = source, .target = target});
        };
        if (first) call();
        else settle(*ctx, call);
        run_flops(state, whole(8, 128, 128), threads, call);
      });
    for (const double dropout : {0.0, 0.1})
      for (const auto& [batch, tokens] : {std::pair<Index, Index>{32, 25}, {8, 128}})
        add(sized(dropout > 0 ? "training_step_dropout" : "training_step", batch, tokens, threads),
            [=, batch = batch, tokens = tokens](benchmark::State& state) {
              auto config = paper_base(vocabulary);
              config.block.dropout = dropout;
              PaperTransformer model(config);
              initialize(model, 1);
              Trainer trainer(std::move(model), {.learning_rate = WarmUp{.width = 512}}, Threads(threads));
              const auto source = random_ids(batch, tokens, 1), target = random_ids(batch, tokens, 2),
                         expected = random_ids(batch, tokens, 3);
              const auto step = [&] {
                trainer.accumulate([&](Context& ctx, const PaperTransformer& m) {
                  return op::cross_entropy(ctx, m(ctx, {.source = source, .target = target}), expected,
                                           {.smoothing = 0.1});
                });
                trainer.step();
              };
              step(), step();  // memory is there after two
              run_flops(state, 3 * whole(batch, tokens, tokens), threads, step);
            });
  }
  return 0;
}();

}  // namespace
}  // namespace eigenformer::bench
