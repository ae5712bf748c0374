// Speculative decoding by a LLaMA of 63 M weights. With a draft that costs nothing and knows a share of the tokens:
// what there is to gain, and what wrong proposals cost. With its own copy in another format. The time is beside that
// without a draft.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "eigenformer/decode/generate.hpp"
#include "llama.hpp"

namespace eigenformer::bench {
namespace {

/// Proposes what the text will be, with a token of `right` as it is.
struct Prophet {
  std::vector<Id> known;
  double right;

  void operator()(const DecodeStep& at, Index most, std::vector<Id>& proposed) const {
    for (Index n = 0; n < most; ++n) {
      const Id token = known[static_cast<std::size_t>(at.generated + n)];
      proposed.push_back(uniform_at(1, at.generated, n) < right ? token : (token + 1) % 8192);
    }
  }
};

const Llama<float>& llama63m_in(Format format) {
  static std::map<Format, Llama<float>> models;
  if (const auto found = models.find(format); found != models.end()) return found->second;
  Llama<float> made = plain_llama63m();
  Context ctx;
  pack(ctx, made, {.format = format, .keep_values = false});
  return models.emplace(format, std::move(made)).first->second;
}

/// draft(known text) → what proposes
void speculate(benchmark::State& state, Index draft_tokens, int threads, auto&& draft) {
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
  const Draft used = draft(texts[0].tokens);
  const double before = median_time(5, run_once);
  config.draft = used;
  settle(ctx, run_once);
  const double seconds = run(state, run_once);
  state.counters["accepted"] = static_cast<double>(texts[0].accepted) / static_cast<double>(texts[0].proposed);
  config.draft.reset();
  const double after = median_time(5, run_once);
  state.counters["speed_up"] = (before + after) / 2 / seconds;
  state.counters["tokens"] = benchmark::Counter(65, benchmark::Counter::kIsIterationInvariantRate);
}

const int registered = [] {
  for (const int threads : {1, 2})
    for (const Index tokens : {4, 8}) {
      const std::string name = "speculative/llama63m/draft_tokens:" + std::to_string(tokens);
      for (const char* right : {"0", "0.7", "0.9", "1"})
        add(on_threads(name + "/right:" + right, threads), [=](benchmark::State& state) {
          speculate(state, tokens, threads, [=](const std::vector<Id>& known) {
            return Prophet{known, std::stod(right)};
          });
        });
      for (const auto& [format, called] : {std::pair{Format::int8, "int8"}, {Format::int4, "int4"}})
        add(on_threads(name + "/draft:" + called, threads), [=, format = format](benchmark::State& state) {
          speculate(state, tokens, threads, [=](const std::vector<Id>&) { return &llama63m_in(format); });
        });
    }
  return 0;
}();

}  // namespace
}  // namespace eigenformer::bench
