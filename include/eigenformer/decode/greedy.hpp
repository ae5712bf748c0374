// Greedy decoding: always the most probable next token.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "eigenformer/core/context.hpp"
#include "eigenformer/decode/best_token.hpp"

namespace eigenformer {

struct GreedyConfig {
  Id begin = 1;             ///< begin-of-sequence token
  Id end = 2;               ///< end-of-sequence token
  Index max_tokens = 100;   ///< at most so many per sequence, the end token included
};

/// For every source (B, M), the tokens after `begin` up to and without `end`; of equals the lowest id wins. The model has
/// encode(), decode() and logits() as EncoderDecoder does. Sequences that have ended cost nothing more.
template <class Model>
std::vector<std::vector<Id>> greedy(Context& ctx, const Model& model, ConstView<Id, 2> source, ConstView<Index, 1> source_lengths,
                                    const GreedyConfig& config = {}) {
  using T = typename Model::T;
  const Index batch = source.extent(0);
  std::vector<std::vector<Id>> results(static_cast<std::size_t>(batch));
  if (batch == 0 || config.max_tokens <= 0) return results;
  require(!ctx.tape && !ctx.random, "greedy", "decoding is neither recorded nor with dropout");
  require(!source_lengths || source_lengths.size() == batch, "greedy", source_lengths.size(), " lengths for a batch of ", batch);
  const auto everything = ctx.scratch();
  const auto memory = model.encode(ctx, source, source_lengths);  // (B, M, D)

  std::vector<Index> active(results.size());  // which sequences go on
  for (Index b = 0; b < batch; ++b) active[static_cast<std::size_t>(b)] = b;
  for (Index length = 1; !active.empty() && length <= config.max_tokens; ++length) {
    const auto step = ctx.scratch();
    const auto count = static_cast<Index>(active.size());
    const auto target = ctx.arena.allocate<Id>(Shape{count, length});
    const auto lengths = ctx.arena.allocate<Index>(Shape{count});
    const auto active_memory = ctx.arena.allocate<T>(Shape{count, memory.extent(1), memory.extent(2)});
    for (Index i = 0; i < count; ++i) {
      const Index b = active[static_cast<std::size_t>(i)];
      target(i, 0) = config.begin;
      std::copy_n(results[static_cast<std::size_t>(b)].data(), length - 1, &target(i, 0) + 1);
      lengths[i] = source_lengths ? source_lengths[b] : source.extent(1);
      std::copy_n(memory[b].data(), memory[b].size(), active_memory[i].data());
    }
    const auto hidden = model.decode(ctx, target, active_memory, lengths);                // (count, length, D)
    const auto logits = model.logits(ctx, hidden.slice(1, length - 1, 1)).flat();  // (count, V)
    std::vector<Index> going;
    for (Index i = 0; i < count; ++i) {
      const Id next = best_token(logits.row(i), logits.width());
      if (next == config.end) continue;
      results[static_cast<std::size_t>(active[static_cast<std::size_t>(i)])].push_back(next);
      going.push_back(active[static_cast<std::size_t>(i)]);
    }
    active = std::move(going);
  }
  return results;
}

}  // namespace eigenformer
