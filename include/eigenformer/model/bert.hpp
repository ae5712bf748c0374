// Encoder-only models: BERT (Devlin et al. 2019) and RoBERTa (Liu et al. 2019)
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "eigenformer/block/encoder_block.hpp"
#include "eigenformer/block/post_norm.hpp"
#include "eigenformer/core/initialize.hpp"
#include "eigenformer/core/settings.hpp"
#include "eigenformer/layer/embedding.hpp"
#include "eigenformer/layer/ffn/mlp.hpp"
#include "eigenformer/layer/linear.hpp"
#include "eigenformer/layer/norm/layer_norm.hpp"
#include "eigenformer/layer/position/learned.hpp"
#include "eigenformer/model/ends.hpp"
#include "eigenformer/model/stack.hpp"
#include "eigenformer/op/activation.hpp"
#include "eigenformer/op/dropout.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

template <class BlockConfig, class PositionConfig>
struct BertConfig {
  Index vocabulary = 0;     ///< V
  Index max_positions = 0;  ///< tokens; 0: as the positions say, 512
  Index types = 2;          ///< kinds of segments
  Index layers = 12;        ///< L
  BlockConfig block{};
  PositionConfig position{};
  bool pooler = true;                     ///< tanh of a linear map of the first token
  std::vector<BlockConfig> each_layer{};  ///< layers that differ; empty: all as `block`

  /// With everything filled in; throws if a setting is invalid.
  BertConfig completed() const {
    require_range("embedding", "vocabulary", vocabulary, 1);
    require_range("bert", "types", types, 1);
    require_range("bert", "layers", layers, 0, most_layers);
    const StackConfig<BlockConfig> all = stack().completed();
    BertConfig config = *this;
    config.block = all.block;
    config.each_layer = all.each_layer;
    config.position = detail::position_of("bert", position, all, max_positions != 0 ? max_positions : 512);
    if constexpr (requires { config.position.max_positions; })
      detail::update_size("bert", "max_positions", config.max_positions, config.position.max_positions);
    return config;
  }
  StackConfig<BlockConfig> stack() const { return {.layers = layers, .block = block, .each_layer = each_layer}; }

  static void fields(auto&& f, auto&... c) {
    f("vocabulary", c.vocabulary...);
    f("max_positions", c.max_positions...);
    f("types", c.types...);
    f("layers", c.layers...);
    f("block", c.block...);
    f("position", c.position...);
    f("pooler", c.pooler...);
    f("each_layer", c.each_layer...);
  }
  friend bool operator==(const BertConfig&, const BertConfig&) = default;
};

struct BertCall {
  ConstView<Id, 2> ids{};         ///< (B, N)
  ConstView<Id, 2> types{};       ///< (B, N); null: all 0
  ConstView<Index, 1> lengths{};  ///< (B); null: all N
  Positions positions{};
};

template <class BlockType, class PositionType>
struct BasicBert {
  using Block = BlockType;
  using Position = PositionType;
  using Config = BertConfig<typename Block::Config, typename Position::Config>;
  using T = typename Block::T;
  using Norm = typename Block::Norm;

  Config config;                // what was given, complete
  Embedding<T> embedding;       // (V, D)
  Position position;            // (max_positions, D)
  Embedding<T> type_embedding;  // (types, D)
  Norm embedding_norm;          // (D)
  Stack<Block> encoder;
  std::optional<Linear<T>> pooler;  // (D, D)
  Fixed<double> dropout;

  explicit BasicBert(const Config& given)
      : config(given.completed()), embedding({config.vocabulary, config.block.width, false}), position(config.position),
        type_embedding({config.types, config.block.width, false}), embedding_norm(config.block.end_norm()),
        encoder(config.stack()), dropout(config.block.dropout) {
    check_position<Position, Block>();
    if (config.pooler) pooler.emplace(LinearConfig{config.block.width, config.block.width});
  }

  static void visit(auto&& f, auto&... m) {
    f("embedding", m.embedding...);
    f("position", m.position...);
    f("type_embedding", m.type_embedding...);
    f("embedding_norm", m.embedding_norm...);
    f("encoder", m.encoder...);
    f("pooler", m.pooler...);
  }

  /// ids (B, N) → hidden states (B, N, D)
  ConstView<T, 3> operator()(Context& ctx, const BertCall& call) const {
    require_initialized(*this, "bert");
    ensure(call.ids.given(), "bert", "no ids are given");
    ConstView<Id, 2> types = call.types;
    if (!types) {
      const View<Id, 2> zeros = ctx.arena.allocate<Id>(call.ids.shape());
      std::fill_n(zeros.data(), zeros.size(), 0);
      types = zeros;
    }
    const auto x = detail::token_states(ctx, embedding, position, &embedding_norm, dropout, call.ids, call.positions,
                                        type_embedding(ctx, types));
    AttentionCall<T> attention{.mask = {.key_lengths = call.lengths, .query_lengths = call.lengths}};
    position.attend(ctx, call.ids.extent(0), call.ids.extent(1), call.positions, attention);
    return encoder(ctx, x, attention);
  }

  /// hidden states (B, N, D) → (B, 1, D), of the first token
  ConstView<T, 3> pool(Context& ctx, ConstView<T, 3> hidden) const {
    ensure(pooler.has_value(), "bert", "this model has no pooler");
    ensure(hidden.extent(1) > 0, "bert", "there is no first token in ", hidden.shape());
    return op::activate<Tanh>(ctx, op::linear(ctx, hidden.slice(1, 0, 1), pooler->weight, pooler->bias));
  }
};

namespace detail {
template <Real T>
using BertBlock = EncoderBlock<PostNorm<T, LayerNorm<T>>, Attention<T>, Mlp<T, Gelu>>;
}  // namespace detail

template <Real T = float>
using Bert = BasicBert<detail::BertBlock<T>, Learned<T>>;
/// Positions begin at row 2 of the table.
template <Real T = float>
using Roberta = BasicBert<detail::BertBlock<T>, Learned<T, 2>>;

inline Bert<>::Config bert_base() {
  return {
      .vocabulary = 30522,
      .block = {.width = 768, .hidden = 3072, .heads = 12, .dropout = 0.1, .residual = {.norm = {.epsilon = 1e-12}}}};
}
inline Roberta<>::Config roberta_base() {
  return {
      .vocabulary = 50265,
      .max_positions = 512,
      .types = 1,
      .block = {.width = 768, .hidden = 3072, .heads = 12, .dropout = 0.1, .residual = {.norm = {.epsilon = 1e-5}}}};
}

}  // namespace eigenformer
