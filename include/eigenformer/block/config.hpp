// What the configs of all blocks have in common: sizes that are said once, for attention, feed-forward network and
// norms. The defaults are those of the paper's base model, without dropout.
#pragma once

#include <optional>
#include <string_view>

#include "eigenformer/core/config.hpp"
#include "eigenformer/core/settings.hpp"

namespace eigenformer::inline EIGENFORMER_ABI::detail {

template <class BlockConfig>
SharedSettings shared_by(const BlockConfig& block) {
  const auto given = [](Index size) { return size == 0 ? std::nullopt : std::optional(size); };
  return {.width = block.width, .hidden = given(block.hidden), .heads = given(block.heads), .dropout = block.dropout};
}

/// The sizes of a block whose parts are complete are those of its parts; throws if it was given others.
template <class BlockConfig, class AttentionConfig>
void update_sizes(std::string_view place, BlockConfig& block, const AttentionConfig& attention) {
  require_range(place, "width", block.width, 1);
  require_range(place, "dropout", block.dropout, 0, 1);
  if constexpr (requires { block.feed_forward.hidden; })
    update_size(place, "hidden", block.hidden, block.feed_forward.hidden);
  if constexpr (requires { *attention.heads; }) update_size(place, "heads", block.heads, *attention.heads);
}

/// Without a dropout of those parts that have the block's: then a change of this one reaches them.
template <class BlockConfig>
void share_dropout(BlockConfig& block) {
  if constexpr (HasFields<BlockConfig>)
    BlockConfig::fields(
        [&](std::string_view, auto& part) {
          if constexpr (requires { part.dropout.reset(), part.dropout == block.dropout; })
            if (part.dropout == block.dropout) part.dropout.reset();
        },
        block);
}

void block_fields(auto&& f, auto&... c) {
  f("width", c.width...);
  f("hidden", c.hidden...);
  f("heads", c.heads...);
  f("dropout", c.dropout...);
}

/// The config of the attention of a block to its own tokens; nothing, if the block has none by that name.
template <class BlockConfig>
auto own_attention(const BlockConfig& block) {
  if constexpr (requires { block.self_attention; }) return block.self_attention;
  else if constexpr (requires { block.attention; }) return block.attention;
  else return EmptyConfig{};
}

/// What a model hands down to a position, from the complete config of a block.
template <class BlockConfig>
SharedSettings shared_with_position(const BlockConfig& block, Index max_positions) {
  SharedSettings shared{.width = block.width, .max_positions = max_positions};
  const auto attention = own_attention(block);
  if constexpr (requires { *attention.heads; }) shared.heads = *attention.heads;
  if constexpr (requires { attention.head_width; }) shared.head_width = attention.head_width;
  return shared;
}

}  // namespace eigenformer::detail
