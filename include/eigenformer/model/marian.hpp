// Marian's translation models (Junczys-Dowmunt et al. 2018; OPUS-MT: Tiedemann and Thottingal 2020): the Transformer of
// 2017 with SiLU, sines and cosines in halves, and a bias on the logits.
#pragma once

#include "eigenformer/block/post_norm.hpp"
#include "eigenformer/layer/ffn/mlp.hpp"
#include "eigenformer/layer/norm/layer_norm.hpp"
#include "eigenformer/layer/position/sinusoidal.hpp"
#include "eigenformer/model/encoder_decoder.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

struct SinusoidalHalvesConfig {
  double base = 10000;

  static void fields(auto&& f, auto&... c) { f("base", c.base...); }
  friend bool operator==(const SinusoidalHalvesConfig&, const SinusoidalHalvesConfig&) = default;
};

/// All sines, then all cosines, of the paper's frequencies.
template <Real T = float>
struct SinusoidalHalves : Sinusoidal<T> {
  using Config = SinusoidalHalvesConfig;

  explicit SinusoidalHalves(const Config& config) : Sinusoidal<T>({.base = config.base, .halves = true}) {}
};

/// Its config has a logit_bias.
template <Real T = float>
using Marian =
    BasicEncoderDecoder<EncoderBlock<PostNorm<T>, Attention<T>, Mlp<T, Silu>>,
                        DecoderBlock<PostNorm<T>, Attention<T>, Attention<T>, Mlp<T, Silu>>, SinusoidalHalves<T>>;

/// OPUS-MT: 6 + 6 layers, D 512, F 2048, 8 heads
inline Marian<>::Config marian_base(Index vocabulary) {
  return {.source_vocabulary = vocabulary,
          .target_vocabulary = vocabulary,
          .block = {.width = 512, .hidden = 2048, .heads = 8, .dropout = 0.1},
          .logit_bias = true};
}

}  // namespace eigenformer
