// What the configs of all blocks have in common: sizes that are said once, for attention, feed-forward network and
// norms. The defaults are those of the paper's base model, without dropout.
#pragma once

#include <string_view>

#include "eigenformer/core/config.hpp"
#include "eigenformer/core/settings.hpp"

namespace eigenformer::inline EIGENFORMER_ABI::detail {

template <class BlockConfig>
SharedSettings shared_by(const BlockConfig& block) {
  return {.width = block.width, .hidden = block.hidden, .heads = block.heads, .dropout = block.dropout};
}

/// The sizes of a block whose parts are complete are those of its parts, which may have been given there.
template <class BlockConfig, class AttentionConfig>
void update_sizes(std::string_view place, BlockConfig& block, const AttentionConfig& attention) {
  require_range(place, "width", block.width, 1);
  require_range(place, "dropout", block.dropout, 0, 1);
  if constexpr (requires { block.feed_forward.hidden; }) block.hidden = block.feed_forward.hidden;
  if constexpr (requires { *attention.heads; }) block.heads = *attention.heads;
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
