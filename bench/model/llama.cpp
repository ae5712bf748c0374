// A LLaMA of 63 M weights: a prompt through the whole model, logits of its last token only; then token by token.
#include "llama.hpp"

namespace eigenformer::bench {
namespace {

/// FLOPs of the layers: products with their weights, and half of the scores and mixes (causal).
double layers_flops(const Llama<>::Config& config, double tokens) {
  const auto& block = config.block;
  const auto width = static_cast<double>(block.width), heads = static_cast<double>(block.heads),
             keys = static_cast<double>(block.attention.kv_heads);
  const double projections = 2 * width * width * (1 + keys / heads),
               feed_forward = 3 * width * static_cast<double>(block.hidden);
  return static_cast<double>(config.layers) * tokens * (2 * (projections + feed_forward) + 2 * tokens * width);
}

/// What a step reads: every weight but the embedding, and the keys and values of so many tokens.
double step_bytes(const Llama<>::Config& config, const Llama<float>& model, Index batch, Index context, Format cache) {
  const auto& block = config.block;
  const Index kv_heads = block.attention.kv_heads, head_width = block.width / block.heads;
  double weights = 0;
  walk(
      [&](const std::string& path, const Leaf&, const auto& tensor) {
        if (path == "embedding.weight") return;
        const double values = 4.0 * static_cast<double>(tensor.size());
        if constexpr (requires { tensor.format(); })
          weights += tensor.format() == Format::scalar ? values : static_cast<double>(tensor.bytes());
        else weights += values;
      },
      model);
  return weights + static_cast<double>(batch * config.layers) *
                       static_cast<double>(KvCache<float>::bytes_for(context, kv_heads, head_width, cache));
}

/// Steps of `batch` sequences that have `context` tokens already.
void decode(benchmark::State& state, const Llama<float>& model, Index batch, Index context, int threads,
            Format cache = Format::scalar) {
  constexpr Index steps = 16, longest = 256;  // in an iteration; after so many, all begin again
  const auto ids = random_tokens((std::max)(batch, context));
  Context ctx{Threads(threads)};
  auto prefilled = model.start(1, cache);
  prefilled.reserve(context + longest);
  for (Index first = 0; first < context; first += 512) {
    ctx.reset();
    const Index counts[] = {(std::min)(Index{512}, context - first)};
    model.hidden(ctx, {{ids.data() + first, static_cast<std::size_t>(counts[0])}, counts}, prefilled);
  }
  prefilled.select(std::vector<Index>(static_cast<std::size_t>(batch), 0));
  const std::vector<Index> ones(static_cast<std::size_t>(batch), 1);
  auto going = prefilled;
  const auto run_once = [&] {
    if (going.length(0) == context + longest) going = prefilled;
    for (Index i = 0; i < steps; ++i) {
      ctx.reset();
      model.next_logits(ctx, {{ids.data(), ones.size()}, ones}, going);
    }
  };
  settle(ctx, run_once);
  run_bytes(
      state, static_cast<double>(steps) * step_bytes(llama63m(), model, batch, context + longest / 2, cache),
      [&] { return read_bandwidth(threads); }, run_once);
  state.counters["tokens"] =
      benchmark::Counter(static_cast<double>(batch * steps), benchmark::Counter::kIsIterationInvariantRate);
}

const int registered = [] {
  for (const int threads : {1, 2}) {
    for (const Format format : all_formats) {
      const std::string name = named("decode/llama63m", format);
      for (const Index batch : {1, 16})
        add(on_threads(name + "/batch:" + std::to_string(batch), threads),
            [=](benchmark::State& state) { decode(state, packed_llama63m(format), batch, 32, threads); });
      for (const Format cache : {Format::scalar, Format::bf16, Format::int8})
        add(on_threads(
                name + "/context:4096" + (cache == Format::scalar ? "" : "/kv:" + std::string(format_name(cache))),
                threads),
            [=](benchmark::State& state) { decode(state, packed_llama63m(format), 1, 4096, threads, cache); });
    }
    add(on_threads("decode_plain/llama63m/batch:1", threads),
        [=](benchmark::State& state) { decode(state, plain_llama63m(), 1, 32, threads); });
    for (const Format format : all_formats)
      for (const Index tokens : {128, 512})
        add(on_threads(named("prefill/llama63m", format) + "/N:" + std::to_string(tokens), threads),
            [=](benchmark::State& state) {
              const auto& model = packed_llama63m(format);
              const auto ids = random_tokens(tokens);
              Context ctx{Threads(threads)};
              const auto run_once = [&] {
                ctx.reset();
                model.logits(ctx,
                             model.hidden(ctx, {.ids = {ids.data(), Shape{Index{1}, tokens}}}).slice(1, tokens - 1, 1));
              };
              settle(ctx, run_once);
              run_flops(state, layers_flops(llama63m(), static_cast<double>(tokens)), threads, run_once, format);
              state.counters["tokens"] =
                  benchmark::Counter(static_cast<double>(tokens), benchmark::Counter::kIsIterationInvariantRate);
            });
  }
  return 0;
}();

}  // namespace
}  // namespace eigenformer::bench
