// A stack of blocks, with a final norm where the arrangement needs one: Encoder and Decoder.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "eigenformer/block/decoder_block.hpp"
#include "eigenformer/block/encoder_block.hpp"
#include "eigenformer/core/initialize.hpp"
#include "eigenformer/core/settings.hpp"
#include "eigenformer/core/visit.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

template <class BlockConfig>
struct StackConfig {
  Index layers = 6;  ///< L
  BlockConfig block{};
  std::optional<bool> final_norm{};       ///< none: as the arrangement needs it (Pre-LN does)
  std::vector<BlockConfig> each_layer{};  ///< layers that differ; empty: all as `block`

  /// With everything filled in; throws if a setting is invalid.
  StackConfig completed() const {
    require_range("stack", "layers", layers, 0, most_layers);
    ensure(each_layer.empty() || static_cast<Index>(each_layer.size()) == layers, "stack", "there are ",
           each_layer.size(), " configs for each of ", layers, " layers");
    StackConfig config = *this;
    config.block = block.completed();
    detail::share_dropout(config.block);
    for (BlockConfig& each : config.each_layer) {
      each = each.completed();
      ensure(each.width == block.width, "stack", "a layer of width ", each.width, " among those of ", block.width);
      detail::share_dropout(each);
    }
    return config;
  }
  const BlockConfig& layer(Index i) const {
    return each_layer.empty() ? block : each_layer[static_cast<std::size_t>(i)];
  }

  static void fields(auto&& f, auto&... c) {
    f("layers", c.layers...);
    f("block", c.block...);
    f("final_norm", c.final_norm...);
    f("each_layer", c.each_layer...);
  }
  friend bool operator==(const StackConfig&, const StackConfig&) = default;
};

namespace detail {

/// The complete config of a model's position, with sizes that are those of the attention of every layer; throws if
/// there is none.
template <class PositionConfig, class BlockConfig>
PositionConfig position_of(std::string_view place, const PositionConfig& given, const StackConfig<BlockConfig>& stack,
                           Index max_positions) {
  const PositionConfig position = inherit(place, given, shared_with_position(stack.block, max_positions));
  const auto check_layer = [&](const auto& attention, std::size_t layer) {
    if constexpr (requires { position.head_width == attention.head_width; })
      ensure(position.head_width == attention.head_width, place, "positions are for heads of width ",
             position.head_width, ", but those of layer ", layer, " have width ", attention.head_width);
    if constexpr (requires { position.heads == *attention.heads; })
      ensure(position.heads == *attention.heads, place, "positions are for ", position.heads, " heads, but layer ",
             layer, " has ", *attention.heads);
  };
  if (stack.each_layer.empty()) check_layer(own_attention(stack.block), 0);
  for (std::size_t i = 0; i < stack.each_layer.size(); ++i) check_layer(own_attention(stack.each_layer[i]), i);
  return position;
}

}  // namespace detail

/// x (B, N, D) through L blocks; further arguments go to every block.
template <class BlockType>
struct Stack {
  using Block = BlockType;
  using Config = StackConfig<typename Block::Config>;
  using Norm = typename Block::Norm;
  using T = typename Block::T;

  std::vector<Block> blocks;
  std::optional<Norm> norm;  // (D)

  explicit Stack(const Config& given) {
    const Config config = given.completed();
    reserve_memory("stack", blocks, config.layers);
    for (Index i = 0; i < config.layers; ++i) {
      blocks.emplace_back(config.layer(i));
      if (i == 0 || !config.each_layer.empty()) {
        Index bytes = 0;
        walk(
            [&](const Leaf&, const auto& tensor) {
              using Value = typename std::remove_cvref_t<decltype(tensor)>::Value;
              if constexpr (!std::is_same_v<Value, NoValue>) bytes += tensor.size() * static_cast<Index>(sizeof(Value));
            },
            std::as_const(blocks.back()));
        require_memory("stack", config.layers - 1 - i, bytes);
      }
    }
    if (config.final_norm.value_or(Block::needs_final_norm)) norm.emplace(config.block.end_norm());
  }

  static void visit(auto&& f, auto&... m) {
    f("blocks", m.blocks...);
    f("norm", m.norm...);
  }

  ConstView<T, 3> operator()(Context& ctx, ConstView<T, 3> x, const auto&... arguments) const {
    require_initialized(*this, "stack");
    for (std::size_t i = 0; i < blocks.size(); ++i)
      x = ctx.keep_result<T>(x.shape(), [&] { return blocks[i](ctx, x, of_layer(arguments, i)...); });
    return norm ? (*norm)(ctx, x) : x;
  }

 private:
  /// What the i-th block gets: its own caches, if there are any.
  static const auto& of_layer(const auto& argument, std::size_t) { return argument; }
  static AttentionCall<T> of_layer(AttentionCall<T> call, std::size_t i) {
    if (call.caches) call.caches += i;
    return call;
  }
};

/// Does not compile unless the self-attention of a block, where the block shows it, uses what the position gives.
template <class Position, class Block>
constexpr void check_position() {
  constexpr bool fits = [] {
    if constexpr (requires(const Block& block) { block.self_attention; })
      return position_fits<Position, decltype(Block::self_attention)>;
    else if constexpr (requires(const Block& block) { block.attention; })
      return position_fits<Position, decltype(Block::attention)>;
    else return true;
  }();
  static_assert(
      fits,
      "the position and the attention do not go together: Rotary needs RotaryHeads and Relative needs BiasedScores, "
      "and these need them; a part of your own says what it `gives` or `uses`");
}

template <class ResidualType = PostNorm<float>>
using Encoder = Stack<EncoderBlock<ResidualType>>;
template <class ResidualType = PostNorm<float>>
using Decoder = Stack<DecoderBlock<ResidualType>>;

}  // namespace eigenformer
