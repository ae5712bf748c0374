// Text from a decoder-only model: always the most probable next token.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "eigenformer/core/context.hpp"
#include "eigenformer/decode/best_token.hpp"

namespace eigenformer {

struct GenerateConfig {
  Index max_tokens = 100;     ///< at most so many per sequence, an end token included
  std::optional<Id> end{};    ///< stops a sequence
};

/// For every prompt (B, N), N ≥ 1, what follows it, up to and without `end`; of equals the lowest id wins. The model has start(),
/// hidden() and logits() as LanguageModel does.
template <class Model>
std::vector<std::vector<Id>> generate(Context& ctx, const Model& model, ConstView<Id, 2> prompts, const GenerateConfig& config = {}) {
  const Index batch = prompts.extent(0);
  std::vector<std::vector<Id>> results(static_cast<std::size_t>(batch));
  if (batch == 0 || config.max_tokens <= 0) return results;
  require(prompts.extent(1) > 0, "generate", "a prompt needs at least one token");
  std::vector<bool> ended(results.size(), false);
  auto state = model.start();
  Tensor<Id, 2> next(prompts);
  for (Index length = 0; length < config.max_tokens && std::find(ended.begin(), ended.end(), false) != ended.end(); ++length) {
    const auto step = ctx.scratch();
    const auto hidden = model.hidden(ctx, next, state);                                        // (B, N, D)
    const auto logits = model.logits(ctx, hidden.slice(1, next.extent(1) - 1, 1)).flat();  // (B, V)
    next = Tensor<Id, 2>(Shape{batch, Index{1}});
    for (Index b = 0; b < batch; ++b) {
      next(b, 0) = best_token(logits.row(b), logits.width());
      const auto at = static_cast<std::size_t>(b);
      ended[at] = ended[at] || next(b, 0) == config.end;
      if (!ended[at]) results[at].push_back(next(b, 0));
    }
  }
  return results;
}

}  // namespace eigenformer
