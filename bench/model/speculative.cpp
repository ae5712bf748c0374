// Speculative decoding by a LLaMA of 63 M weights, with a draft that costs nothing and knows a share of the tokens:
// what there is to gain, and what wrong proposals cost. The time is beside that without a draft.
#include "eigenformer/decode/generate.hpp"
#include "llama.hpp"

namespace eigenformer::bench {
namespace {

void speculate(benchmark::State& state, double right, Index draft_tokens, int threads) {
  const auto& model = packed_llama63m();
  const auto ids = random_tokens(32);
  const std::vector<Id> prompt(ids.data(), ids.data() + ids.size());
  Context ctx{Threads(threads)};
  GenerateConfig config{.max_tokens = 65, .draft_tokens = draft_tokens};
  std::vector<Generated> texts;
  const auto run_once = [&] {
    ctx.reset();
    texts = generate(ctx, model, {prompt}, config);
  };
  settle(ctx, run_once);
  const auto known = texts[0].tokens;
  const Draft draft([&](const DecodeStep& at, Index most, std::vector<Id>& proposed) {
    for (Index n = 0; n < most; ++n) {
      const Id token = known[static_cast<std::size_t>(at.generated + n)];
      proposed.push_back(uniform_at(1, at.generated, n) < right ? token : (token + 1) % 8192);
    }
  });
  const double before = median_time(5, run_once);
  config.draft = draft;
  settle(ctx, run_once);
  const double seconds = run(state, run_once);
  config.draft.reset();
  const double after = median_time(5, run_once);
  state.counters["speed_up"] = (before + after) / 2 / seconds;
  state.counters["tokens"] = benchmark::Counter(65, benchmark::Counter::kIsIterationInvariantRate);
}

const int registered = [] {
  for (const int threads : {1, 2})
    for (const Index tokens : {4, 8})
      for (const char* right : {"0", "0.7", "0.9", "1"})
        add(on_threads("speculative/llama63m/draft_tokens:" + std::to_string(tokens) + "/right:" + right, threads),
            [=](benchmark::State& state) { speculate(state, std::stod(right), tokens, threads); });
  return 0;
}();

}  // namespace
}  // namespace eigenformer::bench
