// The families of decoder-only models: each an alias, and the configs that were published.
#pragma once

#include <cstddef>

#include "eigenformer/block/encoder_block.hpp"
#include "eigenformer/block/parallel_block.hpp"
#include "eigenformer/block/pre_norm.hpp"
#include "eigenformer/block/sandwich.hpp"
#include "eigenformer/layer/ffn/gated_mlp.hpp"
#include "eigenformer/layer/ffn/mlp.hpp"
#include "eigenformer/layer/norm/layer_norm.hpp"
#include "eigenformer/layer/norm/rms_norm.hpp"
#include "eigenformer/layer/position/learned.hpp"
#include "eigenformer/layer/position/rotary.hpp"
#include "eigenformer/model/language_model.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

/// Radford et al. 2019: learned positions, Pre-LN, GELU in its tanh form.
template <Real T = float>
using Gpt2 = LanguageModel<EncoderBlock<PreNorm<T, LayerNorm<T>>, Attention<T>, Mlp<T, GeluTanh>>, Learned<T>>;

/// Touvron et al. 2023: rotary positions, RMS norm, SwiGLU, no biases; grouped heads from LLaMA 2 70B on. Mistral
/// (Jiang et al. 2023) adds a window, Qwen 2 (Yang et al. 2024) biases on q, k and v: the same type.
template <Real T = float>
using Llama = LanguageModel<EncoderBlock<PreNorm<T, RmsNorm<T>>, Attention<T, RotaryHeads<T>>, SwiGlu<T>>, Rotary<T>>;
template <Real T = float>
using Mistral = Llama<T>;
template <Real T = float>
using Qwen2 = Llama<T>;

/// Yang et al. 2025: LLaMA's block with a norm on every head's queries and keys.
template <Real T = float>
using Qwen3 = LanguageModel<EncoderBlock<PreNorm<T, RmsNorm<T>>, Attention<T, QkNorm<T>>, SwiGlu<T>>, Rotary<T>>;

/// Gemma Team 2024: norms with 1 + γ before and after, capped scores and logits, GELU gates, every other layer with a
/// window.
template <Real T = float>
using Gemma2 = LanguageModel<
    EncoderBlock<Sandwich<T, RmsNorm<T, true>>, Attention<T, RotaryHeads<T>, CappedScores<T>>, GatedMlp<T, GeluTanh>>,
    Rotary<T>>;

/// Javaheripi et al. 2023: attention and feed-forward in parallel, rotary positions on part of each head.
template <Real T = float>
using Phi2 = LanguageModel<ParallelBlock<T, LayerNorm<T>, Attention<T, RotaryHeads<T>>, Mlp<T, GeluTanh>>, Rotary<T>>;

/// Scao et al. 2022: ALiBi, a norm after the embedding.
template <Real T = float>
using Bloom = LanguageModel<
    EncoderBlock<PreNorm<T, LayerNorm<T>>, Attention<T, PlainHeads<T>, AlibiScores<T>>, Mlp<T, GeluTanh>>>;

/// 124 M
inline Gpt2<>::Config gpt2_small() {
  return {.vocabulary = 50257,
          .max_positions = 1024,
          .layers = 12,
          .block = {.width = 768, .hidden = 3072, .heads = 12, .dropout = 0}};
}

namespace detail {

template <class Config = Llama<>::Config>
Config llama_config(Index vocabulary, Index layers, Index width, Index hidden, Index heads, Index kv_heads,
                    double epsilon, double base) {
  return {.vocabulary = vocabulary,
          .layers = layers,
          .block = {.width = width,
                    .hidden = hidden,
                    .heads = heads,
                    .dropout = 0,
                    .attention = {.kv_heads = kv_heads, .bias = false},
                    .residual = {.norm = {.epsilon = epsilon}}},
          .position = {.base = base},
          .tied = false};
}

}  // namespace detail

inline Llama<>::Config llama2_7b() { return detail::llama_config(32000, 32, 4096, 11008, 32, 32, 1e-5, 10000); }
inline Llama<>::Config llama3_8b() { return detail::llama_config(128256, 32, 4096, 14336, 32, 8, 1e-5, 500000); }
inline Mistral<>::Config mistral_7b() {
  Mistral<>::Config config = detail::llama_config(32000, 32, 4096, 14336, 32, 8, 1e-5, 10000);
  config.block.attention.window = 4096;
  return config;
}
/// 0.5 B, tied
inline Qwen2<>::Config qwen2_small() {
  Qwen2<>::Config config = detail::llama_config(151936, 24, 896, 4864, 14, 2, 1e-6, 1000000);
  config.block.attention.bias = true;
  config.block.attention.output_bias = false;
  config.tied = true;
  return config;
}
/// 0.6 B, tied
inline Qwen3<>::Config qwen3_small() {
  auto config = detail::llama_config<Qwen3<>::Config>(151936, 28, 1024, 3072, 16, 8, 1e-6, 1000000);
  config.block.attention.head_width = 128;
  config.tied = true;
  return config;
}
/// 2 B
inline Gemma2<>::Config gemma2_2b() {
  auto config = detail::llama_config<Gemma2<>::Config>(256000, 26, 2304, 9216, 8, 4, 1e-6, 10000);
  config.block.attention.head_width = 256;
  config.block.attention.scale = 1.0 / 16;
  config.block.attention.scores.cap = 50;
  config.logit_cap = 30;
  config.tied = config.scaled_embedding = true;
  config.each_layer.assign(static_cast<std::size_t>(config.layers), config.block);
  for (std::size_t layer = 0; layer < config.each_layer.size(); layer += 2)
    config.each_layer[layer].attention.window = 4096;
  return config;
}
/// 2.7 B
inline Phi2<>::Config phi2() {
  return {.vocabulary = 51200,
          .layers = 32,
          .block = {.width = 2560, .hidden = 10240, .heads = 32, .dropout = 0},
          .position = {.rotated = 32},
          .tied = false,
          .head_bias = true};
}
/// 560 M
inline Bloom<>::Config bloom_560m() {
  return {.vocabulary = 250880,
          .layers = 24,
          .block = {.width = 1024, .hidden = 4096, .heads = 16, .dropout = 0},
          .embedding_norm = true};
}

}  // namespace eigenformer
