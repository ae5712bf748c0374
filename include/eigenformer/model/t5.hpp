// T5 (Raffel et al. 2020; version 1.1: Shazeer 2020) and BART (Lewis et al. 2020)
#pragma once

#include "eigenformer/block/pre_norm.hpp"
#include "eigenformer/layer/ffn/gated_mlp.hpp"
#include "eigenformer/layer/norm/rms_norm.hpp"
#include "eigenformer/layer/position/learned.hpp"
#include "eigenformer/layer/position/relative.hpp"
#include "eigenformer/model/encoder_decoder.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

namespace detail {

template <Real T, class FeedForward>
using T5With = BasicEncoderDecoder<
    EncoderBlock<PreNorm<T, RmsNorm<T>>, Attention<T, PlainHeads<T>, BiasedScores<T>>, FeedForward>,
    DecoderBlock<PreNorm<T, RmsNorm<T>>, Attention<T, PlainHeads<T>, BiasedScores<T>>, Attention<T>, FeedForward>,
    Relative<T, true>, Relative<T, false>>;

template <class Config>
Config t5_config(Index layers, Index width, Index hidden, Index heads, bool tied) {
  Config config{.source_vocabulary = 32128,
                .target_vocabulary = 32128,
                .encoder_layers = layers,
                .decoder_layers = layers,
                .block = {.width = width,
                          .hidden = hidden,
                          .heads = heads,
                          .dropout = 0.1,
                          .attention = {.head_width = 64, .bias = false, .scale = 1.0},
                          .feed_forward = {.bias = false},
                          .residual = {.norm = {.epsilon = 1e-6}}},
                .scaled_embedding = false};
  if (tied) config.logit_scale = 1 / std::sqrt(static_cast<double>(width));
  return config;
}

}  // namespace detail

/// Version 1.0: ReLU; tied, with logits divided by √D. Scores are not scaled; biases of distances in both
/// self-attentions, one table each; none across.
template <Real T = float>
using T5 = detail::T5With<T, Mlp<T, Relu>>;
/// Version 1.1: gated GELU, an output projection of its own.
template <Real T = float>
using T5v11 = detail::T5With<T, GatedMlp<T, GeluTanh>>;

inline T5<>::Config t5_small() { return detail::t5_config<T5<>::Config>(6, 512, 2048, 8, true); }
inline T5<>::Config t5_base() { return detail::t5_config<T5<>::Config>(12, 768, 3072, 12, true); }
/// The source and target tables of version 1.1 are one, its output projection is not.
inline T5v11<>::Config t5v11_base() {
  auto config = detail::t5_config<T5v11<>::Config>(12, 768, 2048, 12, false);
  config.sharing = Sharing::source_and_target;
  return config;
}

/// Post-LN, learned positions from row 2 of their tables, a norm after each embedding, GELU.
template <Real T = float>
using Bart = BasicEncoderDecoder<EncoderBlock<PostNorm<T, LayerNorm<T>>, Attention<T>, Mlp<T, Gelu>>,
                                 DecoderBlock<PostNorm<T, LayerNorm<T>>, Attention<T>, Attention<T>, Mlp<T, Gelu>>,
                                 Learned<T, 2>>;

inline Bart<>::Config bart_base() {
  return {.source_vocabulary = 50265,
          .target_vocabulary = 50265,
          .block = {.width = 768, .hidden = 3072, .heads = 12, .dropout = 0.1},
          .max_positions = 1024,
          .scaled_embedding = false,
          .embedding_norm = true};
}

}  // namespace eigenformer
