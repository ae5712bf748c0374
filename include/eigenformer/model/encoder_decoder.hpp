// Encoder–decoder models: the Transformer of "Attention is all you need" (Vaswani et al. 2017) and its kin. What kind a
// model is, its blocks and its positions say.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <numeric>
#include <optional>
#include <string_view>
#include <type_traits>

#include "eigenformer/block/decoder_block.hpp"
#include "eigenformer/block/encoder_block.hpp"
#include "eigenformer/core/initialize.hpp"
#include "eigenformer/core/settings.hpp"
#include "eigenformer/layer/embedding.hpp"
#include "eigenformer/layer/linear.hpp"
#include "eigenformer/layer/position/sinusoidal.hpp"
#include "eigenformer/model/decoder_state.hpp"
#include "eigenformer/model/ends.hpp"
#include "eigenformer/model/stack.hpp"
#include "eigenformer/op/affine.hpp"
#include "eigenformer/op/dropout.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

/// Which of the three tables (source, target, output) are one.
enum class Sharing { none, target_and_output, source_and_target, all };
constexpr std::array<std::string_view, 4> names_of(Sharing) {
  return {"none", "target_and_output", "source_and_target", "all"};
}

template <class EncoderBlockConfig, class DecoderBlockConfig, class EncoderPositionConfig, class DecoderPositionConfig>
struct EncoderDecoderConfig {
  Index source_vocabulary = 0, target_vocabulary = 0;  ///< V; equal when all tables are shared
  Index encoder_layers = 6, decoder_layers = 6;        ///< L
  EncoderBlockConfig block{};                          ///< of the encoder
  std::optional<DecoderBlockConfig> decoder_block{};   ///< none: as_decoder(); else all of it, nothing from `block`
  EncoderPositionConfig position{};
  std::optional<DecoderPositionConfig> target_position{};  ///< none: as `position`
  Sharing sharing = Sharing::all;
  std::optional<bool> final_norm{};  ///< after both stacks; none: as the arrangement needs it
  Index max_positions = 0;           ///< tokens, for learned positions; 0: as they say, 1024
  bool scaled_embedding = true;      ///< looked-up rows are multiplied by √D
  bool embedding_norm = false;       ///< a norm right after each embedding
  bool logit_bias = false;           ///< a bias on the logits
  double logit_scale = 1;            ///< hidden states are multiplied by this before the output projection

  /// With everything filled in; throws if a setting is invalid.
  EncoderDecoderConfig completed() const {
    require_range("encoder_decoder", "source_vocabulary", source_vocabulary, 1);
    require_range("encoder_decoder", "target_vocabulary", target_vocabulary, 1);
    require_range("encoder_decoder", "encoder_layers", encoder_layers, 0, most_layers);
    require_range("encoder_decoder", "decoder_layers", decoder_layers, 0, most_layers);
    require_range("encoder_decoder", "max_positions", max_positions, 0);
    require_range("encoder_decoder", "logit_scale", logit_scale, smallest_real);
    EncoderDecoderConfig config = *this;
    config.block = encoder().completed().block;
    config.decoder_block = decoder().completed().block;
    ensure(config.decoder_block->width == block.width, "encoder_decoder", "a decoder of width ",
           config.decoder_block->width, " cannot see an encoder of ", block.width);
    const Index positions = max_positions != 0 ? max_positions : 1024;
    config.position = detail::position_of("encoder_decoder", position, config.encoder(), positions);
    config.target_position = detail::position_of("encoder_decoder", target_position ? *target_position : as_target(),
                                                 config.decoder(), positions);
    if constexpr (requires { config.position.max_positions == config.target_position->max_positions; })
      if (config.target_position->max_positions != max_positions)
        detail::update_size("encoder_decoder", "max_positions", config.max_positions, config.position.max_positions);
    return config;
  }

  /// Of the two stacks.
  StackConfig<EncoderBlockConfig> encoder() const { return {encoder_layers, block, final_norm, {}}; }
  StackConfig<DecoderBlockConfig> decoder() const {
    return {decoder_layers, decoder_block ? *decoder_block : as_decoder(), final_norm, {}};
  }

  /// The config of a block of the decoder whose parts are as those of the encoder.
  DecoderBlockConfig as_decoder() const {
    DecoderBlockConfig config{
        .width = block.width, .hidden = block.hidden, .heads = block.heads, .dropout = block.dropout};
    if constexpr (requires {
                    block.attention;
                    config.self_attention;
                    config.cross_attention;
                  }) {
      copy(block.attention, config.self_attention);
      copy(block.attention, config.cross_attention);
      if constexpr (requires { config.cross_attention.window; }) config.cross_attention.window = 0;
    }
    if constexpr (requires {
                    block.feed_forward;
                    config.feed_forward;
                  })
      copy(block.feed_forward, config.feed_forward);
    if constexpr (requires {
                    block.residual;
                    config.residual;
                  })
      copy(block.residual, config.residual);
    if constexpr (requires {
                    block.norm;
                    config.residual.norm;
                  })
      copy(block.norm, config.residual.norm);
    return config;
  }

  static void fields(auto&& f, auto&... c) {
    f("source_vocabulary", c.source_vocabulary...);
    f("target_vocabulary", c.target_vocabulary...);
    f("encoder_layers", c.encoder_layers...);
    f("decoder_layers", c.decoder_layers...);
    f("block", c.block...);
    f("decoder_block", c.decoder_block...);
    f("position", c.position...);
    f("target_position", c.target_position...);
    f("sharing", c.sharing...);
    f("final_norm", c.final_norm...);
    f("max_positions", c.max_positions...);
    f("scaled_embedding", c.scaled_embedding...);
    f("embedding_norm", c.embedding_norm...);
    f("logit_bias", c.logit_bias...);
    f("logit_scale", c.logit_scale...);
  }
  friend bool operator==(const EncoderDecoderConfig&, const EncoderDecoderConfig&) = default;

 private:
  DecoderPositionConfig as_target() const {
    DecoderPositionConfig target{};
    copy(position, target);
    return target;
  }
  template <class From, class To>
  static void copy(const From& from, To& to) {
    if constexpr (std::is_same_v<From, To>) to = from;
    else
      ensure(
          from == From{}, "encoder_decoder",
          "blocks or positions have parts of different kinds, and so decoder_block or target_position must be given");
  }
};

/// Tokens in, padded to a rectangle; lengths say where the padding begins (null: nowhere).
struct EncoderDecoderCall {
  ConstView<Id, 2> source{};             ///< (B, M)
  ConstView<Index, 1> source_lengths{};  ///< (B)
  ConstView<Id, 2> target{};             ///< (B, N), beginning with the bos token
  ConstView<Index, 1> target_lengths{};  ///< (B)
};

template <class EncoderBlockType, class DecoderBlockType,
          class EncoderPosition = Sinusoidal<typename EncoderBlockType::T>, class DecoderPosition = EncoderPosition>
struct BasicEncoderDecoder {
  using T = typename EncoderBlockType::T;
  using Config = EncoderDecoderConfig<typename EncoderBlockType::Config, typename DecoderBlockType::Config,
                                      typename EncoderPosition::Config, typename DecoderPosition::Config>;
  using Norm = typename EncoderBlockType::Norm;

  Config config;                                 // what was given, complete
  Embedding<T> embedding;                        // (V, D): source, and what shares it
  std::optional<Embedding<T>> target_embedding;  // (V, D), unless shared with the source
  EncoderPosition position;
  DecoderPosition target_position;
  std::optional<Norm> embedding_norm;                                    // (D)
  std::optional<typename DecoderBlockType::Norm> target_embedding_norm;  // (D)
  Stack<EncoderBlockType> encoder;
  Stack<DecoderBlockType> decoder;
  std::optional<Linear<T>> head;  // (V, D), unless tied to the target embedding
  Tensor<T, 1> logit_bias;        // (V), or none
  Fixed<double> dropout, target_dropout, logit_scale;

  explicit BasicEncoderDecoder(const Config& given)
      : config(given.completed()), embedding({config.source_vocabulary, config.block.width, config.scaled_embedding}),
        position(config.position), target_position(*config.target_position), encoder(config.encoder()),
        decoder(config.decoder()), dropout(config.block.dropout), target_dropout(config.decoder_block->dropout),
        logit_scale(config.logit_scale) {
    check_position<EncoderPosition, EncoderBlockType>();
    check_position<DecoderPosition, DecoderBlockType>();
    static_assert(position_fits<NoPosition<T>, decltype(DecoderBlockType::cross_attention)>,
                  "attention to sources knows no positions: neither RotaryHeads nor BiasedScores");
    if (config.sharing == Sharing::all || config.sharing == Sharing::source_and_target) {
      ensure(config.source_vocabulary == config.target_vocabulary, "encoder_decoder",
             "a shared table needs equal vocabularies, not ", config.source_vocabulary, " and ",
             config.target_vocabulary);
    } else {
      target_embedding.emplace(EmbeddingConfig{config.target_vocabulary, config.block.width, config.scaled_embedding});
    }
    if (config.embedding_norm) {
      embedding_norm.emplace(config.block.end_norm());
      target_embedding_norm.emplace(config.decoder_block->end_norm());
    }
    if (config.sharing == Sharing::none || config.sharing == Sharing::source_and_target)
      head.emplace(LinearConfig{config.block.width, config.target_vocabulary, false});
    if (config.logit_bias) logit_bias = Tensor<T, 1>(Shape{config.target_vocabulary});
    if (encoder.norm.has_value() == decoder.norm.has_value()) config.final_norm = encoder.norm.has_value();
  }

  static void visit(auto&& f, auto&... m) {
    f("embedding", m.embedding...);
    f("target_embedding", m.target_embedding...);
    f("position", m.position...);
    f("target_position", m.target_position...);
    f("embedding_norm", m.embedding_norm...);
    f("target_embedding_norm", m.target_embedding_norm...);
    f("encoder", m.encoder...);
    f("decoder", m.decoder...);
    f("head", m.head...);
    f(Leaf{"logit_bias", Init::zeros}, m.logit_bias...);
  }

  const Embedding<T>& target_table() const { return target_embedding ? *target_embedding : embedding; }

  /// ids (B, M) → memory (B, M, D); rows beyond a length are padding
  ConstView<T, 3> encode(Context& ctx, ConstView<Id, 2> source, ConstView<Index, 1> lengths = {}) const {
    require_initialized(*this, "encoder_decoder");
    ensure(source.given(), "encoder_decoder", "no source is given");
    AttentionCall<T> call{.mask = {.key_lengths = lengths, .query_lengths = lengths}};
    position.attend(ctx, source.extent(0), source.extent(1), {}, call);
    const auto x = detail::token_states(ctx, embedding, position, embedding_norm ? &*embedding_norm : nullptr, dropout,
                                        source, {});
    return encoder(ctx, x, call);
  }

  /// ids (B, N) and memory (B, M, D) → hidden states (B, N, D)
  ConstView<T, 3> decode(Context& ctx, ConstView<Id, 2> target, ConstView<T, 3> memory,
                         ConstView<Index, 1> source_lengths = {}, ConstView<Index, 1> target_lengths = {}) const {
    require_initialized(*this, "encoder_decoder");
    ensure(target.given(), "encoder_decoder", "no target is given");
    AttentionCall<T> call{.mask = {.causal = true, .key_lengths = target_lengths, .query_lengths = target_lengths}};
    target_position.attend(ctx, target.extent(0), target.extent(1), {}, call);
    return decoder(
        ctx, embed_target(ctx, target), call,
        AttentionCall<T>{.memory = memory, .mask = {.key_lengths = source_lengths, .query_lengths = target_lengths}});
  }

  using State = DecoderState<T>;
  /// Encodes sources (B, M) and keeps what decoding needs of them: one sequence each, which has not begun. Keys and
  /// values of sources and targets may be kept in bf16 or int8, see KvCache; what follows then are not the bits of
  /// decode(), but still the same in whatever pieces and company.
  State start(Context& ctx, ConstView<Id, 2> source, ConstView<Index, 1> lengths = {},
              Format cache = Format::scalar) const {
    ensure(!ctx.tape && !ctx.random, "encoder_decoder", "passes with a state are neither recorded nor with dropout");
    ensure(source.given(), "encoder_decoder", "no source is given");
    ensure(!lengths || lengths.size() == source.extent(0), "encoder_decoder", lengths.size(), " lengths for ",
           source.extent(0), " sources");
    for (Index b = 0; lengths && b < lengths.size(); ++b)
      ensure(lengths[b] >= 0 && lengths[b] <= source.extent(1), "encoder_decoder", "length ", lengths[b], " of source ",
             b, " is not in 0…", source.extent(1));
    const auto scratch = ctx.scratch();
    const auto memory = encode(ctx, source, lengths);
    State state(source.extent(0), decoder.blocks, cache);
    const auto counts = ctx.arena.allocate<Index>(Shape{source.extent(0)});
    for (Index b = 0; b < counts.size(); ++b) counts[b] = lengths ? lengths[b] : source.extent(1);
    const auto rows = ctx.arena.allocate<T>(
        Shape{Index{1}, std::accumulate(counts.data(), counts.data() + counts.size(), Index{0}), memory.extent(2)});
    T* to = rows.data();
    for (Index b = 0; b < counts.size(); ++b) to = std::copy_n(memory[b].data(), counts[b] * memory.extent(2), to);
    for (std::size_t i = 0; i < decoder.blocks.size(); ++i) {
      const auto step = ctx.scratch();
      decoder.blocks[i].cross_attention.fill_cache(
          ctx, rows, {.caches = &state.across[i], .counts = {counts.data(), static_cast<std::size_t>(counts.size())}});
    }
    return state;
  }

  /// The next target tokens → their hidden states (1, tokens, D), with the bits of decode().
  ConstView<T, 3> hidden(Context& ctx, const NextTokens& tokens, State& state) const {
    require_initialized(*this, "encoder_decoder");
    state.validate("encoder_decoder", ctx, decoder.blocks, tokens);
    const auto count = static_cast<Index>(tokens.ids.size());
    const Positions positions = state.positions(ctx, tokens);
    AttentionCall<T> call = state.call(tokens);
    target_position.attend(ctx, 1, count, positions, call);
    return decoder(ctx, embed_target(ctx, ConstView<Id, 1>(tokens.ids).reshape(Shape{Index{1}, count}), positions),
                   call, state.call_across(ctx, tokens));
  }

  /// The next target tokens, at least one of every sequence → logits (sequences, V) of the token after each sequence's
  /// last; or (all that are wanted, V), one sequence after another.
  ConstView<T, 2> next_logits(Context& ctx, const NextTokens& tokens, State& state) const {
    tokens.check_wanted("encoder_decoder");
    return logits(ctx, last_rows(ctx, hidden(ctx, tokens, state), tokens)).flat();
  }

  /// hidden states (B, N, D) → logits (B, N, V)
  ConstView<T, 3> logits(Context& ctx, ConstView<T, 3> hidden) const {
    return detail::token_logits(ctx, hidden, head ? head->weight : target_table().weight, logit_bias,
                                {.scale = logit_scale});
  }

  /// → logits (B, N, V) of the token after each target token
  ConstView<T, 3> operator()(Context& ctx, const EncoderDecoderCall& call) const {
    ensure(call.source.given() && call.target.given(), "encoder_decoder",
           call.source.given() ? "no target is given" : "no source is given");
    ensure(call.source.extent(0) == call.target.extent(0), "encoder_decoder", "sources ", call.source.shape(),
           " and targets ", call.target.shape(), " are of different batches");
    const auto memory = encode(ctx, call.source, call.source_lengths);
    return logits(ctx, decode(ctx, call.target, memory, call.source_lengths, call.target_lengths));
  }

 private:
  ConstView<T, 3> embed_target(Context& ctx, ConstView<Id, 2> ids, const Positions& positions = {}) const {
    return detail::token_states(ctx, target_table(), target_position,
                                target_embedding_norm ? &*target_embedding_norm : nullptr, target_dropout, ids,
                                positions);
  }
};

/// Vaswani et al. 2017, with sinusoidal positions.
template <class ResidualType = PostNorm<float>>
using EncoderDecoder = BasicEncoderDecoder<EncoderBlock<ResidualType>, DecoderBlock<ResidualType>>;

}  // namespace eigenformer
