// The two models of "Attention is all you need" (Vaswani et al. 2017, table 3)
#pragma once

#include "eigenformer/model/encoder_decoder.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

/// Post-LN, sinusoidal positions, one table for source, target and output.
using PaperTransformer = EncoderDecoder<PostNorm<float>>;

/// 6 + 6 layers, D 512, F 2048, 8 heads of 64; the paper's vocabulary is about 37,000 shared byte pairs.
inline PaperTransformer::Config paper_base(Index vocabulary = 37000) {
  return {.source_vocabulary = vocabulary,
          .target_vocabulary = vocabulary,
          .block = {.width = 512, .hidden = 2048, .heads = 8, .dropout = 0.1}};
}

/// 6 + 6 layers, D 1024, F 4096, 16 heads of 64
inline PaperTransformer::Config paper_big(Index vocabulary = 37000) {
  return {.source_vocabulary = vocabulary,
          .target_vocabulary = vocabulary,
          .block = {.width = 1024, .hidden = 4096, .heads = 16, .dropout = 0.3}};
}

}  // namespace eigenformer
