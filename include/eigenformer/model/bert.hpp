// Encoder-only models: BERT (Devlin et al. 2019) and RoBERTa (Liu et al. 2019)
#pragma once

#include <algorithm>
#include <optional>

#include "eigenformer/block/encoder_block.hpp"
#include "eigenformer/block/post_norm.hpp"
#include "eigenformer/core/initialize.hpp"
#include "eigenformer/core/settings.hpp"
#include "eigenformer/layer/embedding.hpp"
#include "eigenformer/layer/ffn/mlp.hpp"
#include "eigenformer/layer/linear.hpp"
#include "eigenformer/layer/norm/layer_norm.hpp"
#include "eigenformer/layer/position/learned.hpp"
#include "eigenformer/model/stack.hpp"
#include "eigenformer/op/activation.hpp"
#include "eigenformer/op/dropout.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

struct BertConfig {
  Index vocabulary = 0;       ///< V
  Index max_positions = 512;  ///< tokens
  Index types = 2;            ///< kinds of segments
  Index layers = 12;          ///< L
  BlockConfig block{};
  bool pooler = true;  ///< tanh of a linear map of the first token

  /// Itself; throws if a setting is invalid.
  const BertConfig& checked() const {
    require_range("bert", "types", types, 1);
    require_range("bert", "layers", layers, 0, most_layers);
    return *this;
  }
};

struct BertCall {
  ConstView<Id, 2> ids{};         ///< (B, N)
  ConstView<Id, 2> types{};       ///< (B, N); null: all 0
  ConstView<Index, 1> lengths{};  ///< (B); null: all N
  Positions positions{};
};

template <Real T_ = float, Index PositionOffset = 0>
struct BasicBert {
  using T = T_;
  using Config = BertConfig;
  using Block = EncoderBlock<PostNorm<T, LayerNorm<T>>, Attention<T>, Mlp<T, Gelu>>;

  Embedding<T> embedding;               // (V, D)
  Learned<T, PositionOffset> position;  // (max_positions, D)
  Embedding<T> type_embedding;          // (types, D)
  LayerNorm<T> embedding_norm;          // (D)
  Stack<Block> encoder;
  std::optional<Linear<T>> pooler;  // (D, D)
  double dropout;

  explicit BasicBert(const BertConfig& config)
      : embedding({config.checked().vocabulary, config.block.width, false}),
        position({.width = config.block.width, .max_positions = config.max_positions}),
        type_embedding({config.types, config.block.width, false}),
        embedding_norm(config.block.residual().template norm<LayerNorm<T>>()), encoder({config.layers, config.block}),
        dropout(config.block.dropout) {
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
    const auto x =
        op::add(ctx, position.embed(ctx, embedding(ctx, call.ids), call.positions), type_embedding(ctx, types));
    return encoder(ctx, op::dropout(ctx, embedding_norm(ctx, x), dropout),
                   Mask{.key_lengths = call.lengths, .query_lengths = call.lengths});
  }

  /// hidden states (B, N, D) → (B, 1, D), of the first token
  ConstView<T, 3> pool(Context& ctx, ConstView<T, 3> hidden) const {
    ensure(pooler.has_value(), "bert", "this model has no pooler");
    ensure(hidden.extent(1) > 0, "bert", "there is no first token in ", hidden.shape());
    return op::activate<Tanh>(ctx, op::linear(ctx, hidden.slice(1, 0, 1), pooler->weight, pooler->bias));
  }
};

template <Real T = float>
using Bert = BasicBert<T>;
/// Positions begin at row 2 of the table.
template <Real T = float>
using Roberta = BasicBert<T, 2>;

inline BertConfig bert_base() {
  return {.vocabulary = 30522,
          .block = {.width = 768, .hidden = 3072, .heads = 12, .dropout = 0.1, .norm_epsilon = 1e-12}};
}
inline BertConfig roberta_base() {
  return {.vocabulary = 50265,
          .max_positions = 512,
          .types = 1,
          .block = {.width = 768, .hidden = 3072, .heads = 12, .dropout = 0.1, .norm_epsilon = 1e-5}};
}

}  // namespace eigenformer
