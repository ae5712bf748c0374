// A LLaMA of 63 M weights.
#pragma once

#include <algorithm>

#include "../support/machine.hpp"
#include "eigenformer/core/initialize.hpp"
#include "eigenformer/model/decoders.hpp"
#include "eigenformer/op/weight.hpp"

namespace eigenformer::bench {

inline Llama<>::Config llama63m() {
  return {.vocabulary = 8192,
          .layers = 8,
          .block = {.width = 768,
                    .hidden = 2048,
                    .heads = 12,
                    .dropout = 0,
                    .attention = {.kv_heads = 4, .bias = false},
                    .residual = {.norm = {.epsilon = 1e-5}}},
          .tied = false};
}

inline const Llama<float>& plain_llama63m() {
  static const Llama<float> model = [] {
    Llama<float> made(llama63m());
    initialize(made, 1);
    return made;
  }();
  return model;
}
inline const Llama<float>& packed_llama63m(Format format = Format::scalar) { return packed(format, plain_llama63m()); }

inline Tensor<Id, 1> random_tokens(Index count) {
  Tensor<Id, 1> ids(Shape{count});
  RandomSequence random(1);
  std::generate_n(ids.data(), count, [&] { return static_cast<Id>(random.below(8192)); });
  return ids;
}

}  // namespace eigenformer::bench
