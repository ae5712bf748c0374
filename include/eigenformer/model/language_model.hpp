// Decoder-only models (GPT, LLaMA and their kin): embedding, a stack of causal blocks, logits. What kind a model is,
// its block and its position say; see model/decoders.hpp for the families.
#pragma once

#include <optional>
#include <type_traits>
#include <vector>

#include "eigenformer/core/initialize.hpp"
#include "eigenformer/core/settings.hpp"
#include "eigenformer/core/visit.hpp"
#include "eigenformer/layer/embedding.hpp"
#include "eigenformer/layer/linear.hpp"
#include "eigenformer/layer/position/none.hpp"
#include "eigenformer/layer/position/rotary.hpp"
#include "eigenformer/model/decoder_state.hpp"
#include "eigenformer/model/ends.hpp"
#include "eigenformer/model/stack.hpp"
#include "eigenformer/op/activation.hpp"
#include "eigenformer/op/affine.hpp"
#include "eigenformer/op/dropout.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

template <class BlockConfig, class PositionConfig>
struct LanguageModelConfig {
  Index vocabulary = 0;     ///< V
  Index max_positions = 0;  ///< tokens, for learned positions; 0: as they say, 1024
  Index layers = 12;        ///< L
  BlockConfig block{};
  PositionConfig position{};
  bool tied = true;                       ///< the output projection is the embedding
  bool head_bias = false;                 ///< of an untied output projection
  bool scaled_embedding = false;          ///< rows are multiplied by √D
  bool embedding_norm = false;            ///< a norm right after the embedding
  double logit_cap = 0;                   ///< if not 0: logits are cap·tanh(logits/cap)
  std::vector<BlockConfig> each_layer{};  ///< layers that differ; empty: all as `block`

  /// With everything filled in; throws if a setting is invalid.
  LanguageModelConfig completed() const {
    require_range("embedding", "vocabulary", vocabulary, 1);
    require_range("language_model", "max_positions", max_positions, 0);
    require_range("language_model", "layers", layers, 0, most_layers);
    if (logit_cap != 0) require_range("language_model", "logit_cap", logit_cap, smallest_real);
    const StackConfig<BlockConfig> all = stack().completed();
    LanguageModelConfig config = *this;
    config.block = all.block;
    config.each_layer = all.each_layer;
    config.position = detail::position_of("language_model", position, all, max_positions != 0 ? max_positions : 1024);
    if constexpr (requires { config.position.max_positions; })
      detail::update_size("language_model", "max_positions", config.max_positions, config.position.max_positions);
    if (tied) config.head_bias = false;
    return config;
  }
  StackConfig<BlockConfig> stack() const { return {.layers = layers, .block = block, .each_layer = each_layer}; }

  static void fields(auto&& f, auto&... c) {
    f("vocabulary", c.vocabulary...);
    f("max_positions", c.max_positions...);
    f("layers", c.layers...);
    f("block", c.block...);
    f("position", c.position...);
    f("tied", c.tied...);
    f("head_bias", c.head_bias...);
    f("scaled_embedding", c.scaled_embedding...);
    f("embedding_norm", c.embedding_norm...);
    f("logit_cap", c.logit_cap...);
    f("each_layer", c.each_layer...);
  }
  friend bool operator==(const LanguageModelConfig&, const LanguageModelConfig&) = default;
};

/// A batch of token ids; those of one sequence beyond its length are padding.
struct LanguageModelCall {
  ConstView<Id, 2> ids{};         ///< (B, N)
  ConstView<Index, 1> lengths{};  ///< (B); null: all N
  Positions positions{};
  ConstView<Index, 1> prefixes{};  ///< (B) tokens that all see (prefix language model); null: none
  Allowed allowed{};               ///< any further mask
};

template <class BlockType, class PositionType = NoPosition<typename BlockType::T>>
struct LanguageModel {
  using Block = BlockType;
  using Position = PositionType;
  using Config = LanguageModelConfig<typename Block::Config, typename Position::Config>;
  using T = typename Block::T;

  Config config;           // what was given, complete
  Embedding<T> embedding;  // (V, D)
  Position position;
  std::optional<typename Block::Norm> embedding_norm;  // (D)
  Stack<Block> decoder;
  std::optional<Linear<T>> head;  // (V, D), unless tied
  Fixed<double> dropout, logit_cap;

  explicit LanguageModel(const Config& given)
      : config(given.completed()), embedding({config.vocabulary, config.block.width, config.scaled_embedding}),
        position(config.position), decoder(config.stack()), dropout(config.block.dropout), logit_cap(config.logit_cap) {
    check_position<Position, Block>();
    if (config.embedding_norm) embedding_norm.emplace(config.block.end_norm());
    if (!config.tied) head.emplace(LinearConfig{config.block.width, config.vocabulary, config.head_bias});
  }

  static void visit(auto&& f, auto&... m) {
    f("embedding", m.embedding...);
    f("position", m.position...);
    f("embedding_norm", m.embedding_norm...);
    f("decoder", m.decoder...);
    f("head", m.head...);
  }

  using State = DecoderState<T>;
  /// Of so many sequences that have not begun. With keys and values in bf16 or int8, see KvCache, it takes less memory,
  /// and what follows are not the bits of one pass over each whole sequence, but still the same in whatever pieces and
  /// company.
  State start(Index sequences = 1, Format cache = Format::scalar) const {
    require_initialized(*this, "language_model");
    return {sequences, decoder.blocks, cache};
  }

  /// The next tokens → their hidden states (1, tokens, D): the same bits as those of one pass over each whole sequence,
  /// in whatever pieces and company they come.
  ConstView<T, 3> hidden(Context& ctx, const NextTokens& tokens, State& state) const {
    require_initialized(*this, "language_model");
    state.validate("language_model", ctx, decoder.blocks, tokens);
    const auto count = static_cast<Index>(tokens.ids.size());
    const Positions positions = state.positions(ctx, tokens);
    AttentionCall<T> attention = state.call(tokens);
    position.attend(ctx, 1, count, positions, attention);
    return through(ctx, ConstView<Id, 1>(tokens.ids).reshape(Shape{Index{1}, count}), positions, attention);
  }

  /// The next tokens, at least one of every sequence → logits (sequences, V) of the token after each sequence's last;
  /// or (all that are wanted, V), one sequence after another.
  ConstView<T, 2> next_logits(Context& ctx, const NextTokens& tokens, State& state) const {
    tokens.check_wanted("language_model");
    return logits(ctx, last_rows(ctx, hidden(ctx, tokens, state), tokens)).flat();
  }

  /// ids (B, N) → hidden states (B, N, D)
  ConstView<T, 3> hidden(Context& ctx, const LanguageModelCall& call) const {
    require_initialized(*this, "language_model");
    ensure(call.ids.given(), "language_model", "no ids are given");
    const Index batch = call.ids.extent(0), tokens = call.ids.extent(1);
    AttentionCall<T> attention{.mask = {.causal = true,
                                        .key_lengths = call.lengths,
                                        .query_lengths = call.lengths,
                                        .prefixes = call.prefixes,
                                        .allowed = call.allowed}};
    position.attend(ctx, batch, tokens, call.positions, attention);
    return through(ctx, call.ids, call.positions, attention);
  }

  /// hidden states (B, N, D) → logits (B, N, V)
  ConstView<T, 3> logits(Context& ctx, ConstView<T, 3> x) const {
    return detail::token_logits(ctx, x, head ? head->weight : embedding.weight,
                                head ? head->bias.view() : ConstView<T, 1>(), {.cap = logit_cap});
  }

  /// → logits (B, N, V) of the token after each
  ConstView<T, 3> operator()(Context& ctx, const LanguageModelCall& call) const {
    return logits(ctx, hidden(ctx, call));
  }

 private:
  ConstView<T, 3> through(Context& ctx, ConstView<Id, 2> ids, const Positions& positions,
                          const AttentionCall<T>& attention) const {
    const auto x = detail::token_states(ctx, embedding, position, embedding_norm ? &*embedding_norm : nullptr, dropout,
                                        ids, positions);
    return decoder(ctx, x, attention);
  }
};

}  // namespace eigenformer
