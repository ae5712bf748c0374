// The Transformer of "Attention is all you need" (Vaswani et al. 2017)
#pragma once

#include <optional>

#include "eigenformer/layer/embedding.hpp"
#include "eigenformer/layer/linear.hpp"
#include "eigenformer/layer/position/sinusoidal.hpp"
#include "eigenformer/model/stack.hpp"
#include "eigenformer/op/dropout.hpp"

namespace eigenformer {

/// Which of the three tables (source, target, output) are one.
enum class Sharing { none, target_and_output, all };

struct EncoderDecoderConfig {
  Index source_vocabulary = 0, target_vocabulary = 0;  ///< V; equal when all tables are shared
  Index encoder_layers = 6, decoder_layers = 6;        ///< L
  BlockConfig block{};
  Sharing sharing = Sharing::all;
  std::optional<bool> final_norm{};  ///< after both stacks; none: as the arrangement needs it
};

/// Tokens in, padded to a rectangle; lengths say where the padding begins (null: nowhere).
struct EncoderDecoderCall {
  ConstView<Id, 2> source{};             ///< (B, M)
  ConstView<Index, 1> source_lengths{};  ///< (B)
  ConstView<Id, 2> target{};             ///< (B, N), beginning with the begin-of-sequence token
  ConstView<Index, 1> target_lengths{};  ///< (B)
};

template <class ResidualType = PostNorm<float>>
struct EncoderDecoder {
  using T = typename ResidualType::Scalar;

  Embedding<T> embedding;                        // (V, D): source, and what shares it
  std::optional<Embedding<T>> target_embedding;  // (V, D), unless shared with the source
  Sinusoidal<T> position;
  Encoder<ResidualType> encoder;
  Decoder<ResidualType> decoder;
  std::optional<Linear<T>> head;  // (V, D), unless tied to the target embedding
  double dropout;

  explicit EncoderDecoder(const EncoderDecoderConfig& config)
      : embedding({config.source_vocabulary, config.block.width}),
        encoder({config.encoder_layers, config.block, config.final_norm}),
        decoder({config.decoder_layers, config.block, config.final_norm}), dropout(config.block.dropout) {
    if (config.sharing == Sharing::all) {
      require(config.source_vocabulary == config.target_vocabulary, "encoder_decoder", "a shared table needs equal vocabularies, not ",
              config.source_vocabulary, " and ", config.target_vocabulary);
    } else {
      target_embedding.emplace(EmbeddingConfig{config.target_vocabulary, config.block.width});
    }
    if (config.sharing == Sharing::none) head.emplace(LinearConfig{config.block.width, config.target_vocabulary, false});
  }

  static void visit(auto&& f, auto&... m) {
    f("embedding", m.embedding...);
    f("target_embedding", m.target_embedding...);
    f("encoder", m.encoder...);
    f("decoder", m.decoder...);
    f("head", m.head...);
  }

  const Embedding<T>& target_table() const { return target_embedding ? *target_embedding : embedding; }

  /// ids (B, M) → memory (B, M, D); rows beyond a length are padding
  ConstView<T, 3> encode(Context& ctx, ConstView<Id, 2> source, ConstView<Index, 1> lengths = {}) const {
    const auto x = op::dropout(ctx, position(ctx, embedding(ctx, source)), dropout);
    return encoder(ctx, x, Mask{.key_lengths = lengths, .query_lengths = lengths});
  }

  /// ids (B, N) and memory (B, M, D) → hidden states (B, N, D)
  ConstView<T, 3> decode(Context& ctx, ConstView<Id, 2> target, ConstView<T, 3> memory, ConstView<Index, 1> source_lengths = {},
                         ConstView<Index, 1> target_lengths = {}) const {
    const auto x = op::dropout(ctx, position(ctx, target_table()(ctx, target)), dropout);
    return decoder(ctx, x, memory, Mask{.causal = true, .key_lengths = target_lengths, .query_lengths = target_lengths},
                   Mask{.key_lengths = source_lengths, .query_lengths = target_lengths});
  }

  /// hidden states (B, N, D) → logits (B, N, V)
  ConstView<T, 3> logits(Context& ctx, ConstView<T, 3> hidden) const {
    return head ? (*head)(ctx, hidden) : target_table().logits(ctx, hidden);
  }

  /// → logits (B, N, V) of the token after each target token
  ConstView<T, 3> operator()(Context& ctx, const EncoderDecoderCall& call) const {
    require(call.source.extent(0) == call.target.extent(0), "encoder_decoder", "sources ", call.source.shape(), " and targets ",
            call.target.shape(), " are of different batches");
    const auto memory = encode(ctx, call.source, call.source_lengths);
    return logits(ctx, decode(ctx, call.target, memory, call.source_lengths, call.target_lengths));
  }
};

}  // namespace eigenformer
