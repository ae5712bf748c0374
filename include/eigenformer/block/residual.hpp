// What the wrappers of the residual stream (PostNorm, PreNorm) and the blocks have in common.
#pragma once

#include "eigenformer/core/scalar.hpp"
#include "eigenformer/layer/attention/attention.hpp"

namespace eigenformer {

struct ResidualConfig {
  Index width = 512;
  double dropout = 0;  ///< on the sublayer's output
};

/// Sizes of a block; the defaults are the paper's base model.
struct BlockConfig {
  Index width = 512;      ///< D
  Index hidden = 2048;    ///< F
  Index heads = 8;        ///< H
  Index head_width = 0;   ///< E; 0: D/H
  double dropout = 0.1;   ///< on sublayer outputs and on attention weights

  AttentionConfig attention() const { return {.width = width, .heads = heads, .head_width = head_width, .dropout = dropout}; }
};

}  // namespace eigenformer
