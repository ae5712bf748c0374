// What a decoder knows of some sequences so far, so that their next tokens need only themselves computed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string_view>
#include <vector>

#include "eigenformer/layer/attention/config.hpp"
#include "eigenformer/layer/attention/kv_cache.hpp"
#include "eigenformer/model/next_tokens.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

/// A value: copies go on independently. It comes from the model's start().
template <Real T>
struct DecoderState {
  std::vector<KvCache<T>> layers;  // of self-attention
  std::vector<KvCache<T>> across;  // of attention to sources
  std::vector<Index> sharers;      // how many sequences in a row look at each source

  /// Of so many sequences that have not begun, for these blocks, with all caches in a format.
  template <class Block>
  DecoderState(Index sequences, const std::vector<Block>& blocks, Format format) : count_(sequences) {
    ensure(!blocks.empty(), "decoder_state", "a model without layers cannot remember where its sequences stand");
    for (const Block& block : blocks) {
      layers.push_back(own_attention(block).cache(sequences, format));
      if constexpr (has_sources<Block>) across.push_back(block.cross_attention.cache(sequences, format));
    }
    if constexpr (has_sources<Block>) sharers.assign(static_cast<std::size_t>(sequences), 1);
  }

  /// Throws unless this is a state for these blocks, the tokens are for it, and the context neither records nor drops
  /// out.
  template <class Block>
  void validate(std::string_view place, const Context& ctx, const std::vector<Block>& blocks,
                const NextTokens& tokens) const {
    ensure(!ctx.tape && !ctx.random, place, "passes with a state are neither recorded nor with dropout");
    bool fits = layers.size() == blocks.size() && across.size() == (has_sources<Block> ? blocks.size() : 0);
    for (std::size_t i = 0; fits && i < blocks.size(); ++i) {
      fits = layers[i].compatible(own_attention(blocks[i]).cache(0));
      if constexpr (has_sources<Block>) fits = fits && across[i].compatible(blocks[i].cross_attention.cache(0));
    }
    ensure(fits, "decoder_state", "this state is none of this model: it comes from start()");
    tokens.validate(place, count_);
  }

  Index sequences() const { return count_; }
  /// Tokens so far.
  Index length(Index s) const { return layers[0].length(s); }

  /// Sequence i becomes what which[i] was: reorders, drops and forks. Storage is shared, and copied when one of those
  /// that share it goes on.
  void select(std::span<const Index> which) {
    for (const Index from : which)
      ensure(from >= 0 && from < count_, "decoder_state", "there is no sequence ", from, " of ", count_);
    if (!sharers.empty() || !across.empty()) {
      owners_.clear();  // by sequence: its source
      for (std::size_t source = 0; source < sharers.size(); ++source)
        owners_.insert(owners_.end(), static_cast<std::size_t>(sharers[source]), static_cast<Index>(source));
      sharers.clear();
      sources_.clear();
      for (const Index from : which) {
        const Index source = owners_[static_cast<std::size_t>(from)];
        if (sources_.empty() || sources_.back() != source) sources_.push_back(source), sharers.push_back(0);
        ++sharers.back();
      }
      for (KvCache<T>& cache : across) cache.select(sources_);
    }
    for (KvCache<T>& cache : layers) cache.select(which);
    count_ = static_cast<Index>(which.size());
  }

  /// Every sequence goes back to its first lengths[s] tokens: for models with windows, at most the tokens of the last
  /// pass are taken back, and those that reserve() spares.
  void truncate(std::span<const Index> lengths) {
    ensure(static_cast<Index>(lengths.size()) == count_, "decoder_state", "lengths of ", lengths.size(),
           " sequences, but there are ", count_);
    for (Index s = 0; s < count_; ++s) {
      Index shortest = 0;
      for (const KvCache<T>& cache : layers) shortest = (std::max)(shortest, cache.shortest(s));
      const Index wanted = lengths[static_cast<std::size_t>(s)];
      ensure(wanted >= shortest && wanted <= length(s), "decoder_state", "sequence ", s, " cannot go back to ", wanted,
             " tokens: it can to ", shortest, "…", length(s));
    }
    for (KvCache<T>& cache : layers) cache.truncate(lengths);
  }

  /// Room for so many tokens of every sequence; see KvCache.
  void reserve(Index tokens, Index spare = 0) {
    for (KvCache<T>& cache : layers) cache.reserve(tokens, spare);
  }

  /// Of memory that the keys and values take.
  std::int64_t bytes() const {
    std::int64_t bytes = 0;
    for (const auto* caches : {&layers, &across})
      for (const KvCache<T>& cache : *caches) bytes += cache.bytes();
    return bytes;
  }

  /// Where these tokens stand. Lives in the context.
  Positions positions(Context& ctx, const NextTokens& tokens) const {
    const auto given = ctx.arena.allocate<Index>(Shape{Index{1}, static_cast<Index>(tokens.ids.size())});
    Index* to = given.data();
    for (std::size_t s = 0; s < tokens.counts.size(); to += tokens.counts[s++])
      std::iota(to, to + tokens.counts[s], length(static_cast<Index>(s)));
    return {.given = given};
  }

  /// How these tokens attend to those before.
  AttentionCall<T> call(const NextTokens& tokens) {
    return {.mask = {.causal = true}, .caches = layers.data(), .counts = tokens.counts};
  }

  /// How they attend to their sources. Lives in the context.
  AttentionCall<T> call_across(Context& ctx, const NextTokens& tokens) {
    const auto counts = ctx.arena.allocate<Index>(Shape{static_cast<Index>(sharers.size())});
    std::size_t s = 0;
    for (std::size_t source = 0; source < sharers.size(); s += static_cast<std::size_t>(sharers[source++]))
      counts[static_cast<Index>(source)] =
          std::accumulate(tokens.counts.begin() + static_cast<Index>(s),
                          tokens.counts.begin() + static_cast<Index>(s) + sharers[source], Index{0});
    return {.caches = across.data(), .counts = {counts.data(), sharers.size()}, .filled = true};
  }

 private:
  template <class Block>
  static constexpr bool has_sources = requires(const Block& block) {
    block.cross_attention;
  };
  static const auto& own_attention(const auto& block) {
    if constexpr (requires { block.self_attention; }) return block.self_attention;
    else return block.attention;
  }

  Index count_;
  std::vector<Index> owners_, sources_;  // memory for select()
};

/// The rows of x (1, N of all, D) that logits are wanted after: the last of each sequence → (1, all wanted, D)
template <class T>
ConstView<T, 3> last_rows(Context& ctx, ConstView<T, 3> x, const NextTokens& tokens) {
  const Index count = tokens.all_wanted();
  if (count == x.extent(1)) return x;
  const View<T, 3> rows = ctx.arena.allocate<T>(Shape{Index{1}, count, x.extent(2)});
  T* to = rows.data();
  Index end = 0;
  for (std::size_t s = 0; s < tokens.counts.size(); ++s) {
    end += tokens.counts[s];
    const Index wanted = tokens.wanted_of(s);
    if (wanted > 0) to = std::copy_n(&x(0, end - wanted, 0), wanted * x.extent(2), to);
  }
  return rows;
}

}  // namespace eigenformer
