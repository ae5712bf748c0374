// Marian's translation models (Junczys-Dowmunt et al. 2018; OPUS-MT: Tiedemann and Thottingal 2020): the Transformer of 2017 with
// SiLU, sines and cosines in halves, and a bias on the logits.
#pragma once

#include "eigenformer/block/post_norm.hpp"
#include "eigenformer/layer/ffn/mlp.hpp"
#include "eigenformer/layer/norm/layer_norm.hpp"
#include "eigenformer/layer/position/sinusoidal.hpp"
#include "eigenformer/model/encoder_decoder.hpp"

namespace eigenformer {

/// All sines, then all cosines, of the paper's frequencies.
template <Real T = float>
struct SinusoidalHalves : Sinusoidal<T> {
  explicit SinusoidalHalves(const PositionConfig& config) : Sinusoidal<T>(config) { this->layout.halves = true; }
};

namespace detail {

template <Real T>
using MarianBase = BasicEncoderDecoder<EncoderBlock<PostNorm<T>, Attention<T>, Mlp<T, Silu>>,
                                       DecoderBlock<PostNorm<T>, Attention<T>, Attention<T>, Mlp<T, Silu>>, SinusoidalHalves<T>>;

}  // namespace detail

template <Real T_ = float>
struct Marian : detail::MarianBase<T_> {
  using T = T_;
  using Base = detail::MarianBase<T>;

  Tensor<T, 1> logit_bias;  // (V)

  explicit Marian(const EncoderDecoderConfig& config) : Base(config), logit_bias(Shape{config.target_vocabulary}) {
    require(!this->head && this->logit_scale == 1, "marian", "the output projection is the target embedding, with a bias");
  }

  static void visit(auto&& f, auto&... m) {
    Base::visit(f, m...);
    f(Leaf{"logit_bias", Init::zeros}, m.logit_bias...);
  }

  /// hidden states (B, N, D) → logits (B, N, V)
  ConstView<T, 3> logits(Context& ctx, ConstView<T, 3> hidden) const {
    return op::linear(ctx, hidden, this->target_table().weight, logit_bias);
  }

  /// The next target tokens, at least one of every sequence → logits (sequences, V) of the token after each sequence's last.
  ConstView<T, 2> next_logits(Context& ctx, const NextTokens& tokens, typename Base::State& state) const {
    return logits(ctx, last_rows(ctx, this->hidden(ctx, tokens, state), tokens.counts)).flat();
  }

  /// → logits (B, N, V) of the token after each target token
  ConstView<T, 3> operator()(Context& ctx, const EncoderDecoderCall& call) const {
    require(call.source.extent(0) == call.target.extent(0), "marian", "sources ", call.source.shape(), " and targets ", call.target.shape(),
            " are of different batches");
    const auto memory = this->encode(ctx, call.source, call.source_lengths);
    return logits(ctx, this->decode(ctx, call.target, memory, call.source_lengths, call.target_lengths));
  }
};

/// OPUS-MT: 6 + 6 layers, D 512, F 2048, 8 heads
inline EncoderDecoderConfig marian_base(Index vocabulary) {
  return {.source_vocabulary = vocabulary,
          .target_vocabulary = vocabulary,
          .block = {.width = 512, .hidden = 2048, .heads = 8, .dropout = 0.1}};
}

}  // namespace eigenformer
