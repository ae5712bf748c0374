// The paper's base model, and the work of its parts.
#pragma once

#include <algorithm>

#include "../support/machine.hpp"
#include "eigenformer/core/initialize.hpp"
#include "eigenformer/model/paper.hpp"
#include "eigenformer/op/weight.hpp"

namespace eigenformer::bench {

inline constexpr Index vocabulary = 32000;

/// FLOPs of linear layers and attention, forward; a multiplication and an addition count as two.
struct Work {
  double width, hidden;

  double projections(double rows, double count) const { return 2 * rows * width * width * count; }
  double attention(double batch, double queries, double keys) const { return 4 * batch * queries * keys * width; }
  double feed_forward(double rows) const { return 4 * rows * width * hidden; }
  double encoder_layer(double batch, double tokens) const {
    return projections(batch * tokens, 4) + attention(batch, tokens, tokens) + feed_forward(batch * tokens);
  }
  double decoder_layer(double batch, double tokens, double memory) const {
    return projections(batch * tokens, 6) + projections(batch * memory, 2) + attention(batch, tokens, tokens) +
           attention(batch, tokens, memory) + feed_forward(batch * tokens);
  }
};
inline constexpr Work base{512, 2048};

inline Tensor<Id, 2> random_ids(Index batch, Index tokens, std::uint64_t seed) {
  Tensor<Id, 2> ids(Shape{batch, tokens});
  RandomSequence random(seed);
  std::generate_n(ids.data(), ids.size(), [&] { return static_cast<Id>(random.below(vocabulary)); });
  return ids;
}

inline const PaperTransformer& packed_base(Format format = Format::scalar) {
  static const PaperTransformer plain = [] {
    PaperTransformer made(paper_base(vocabulary));
    initialize(made, 1);
    return made;
  }();
  return packed(format, plain);
}

}  // namespace eigenformer::bench
