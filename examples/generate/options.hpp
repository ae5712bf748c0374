// What examples/generate is asked for.
#pragma once

#include <cstdint>
#include <string>

#include "eigenformer/core/format.hpp"
#include "eigenformer/core/scalar.hpp"

namespace generating {

using eigenformer::Id;
using eigenformer::Index;

struct Options {
  std::string model, tokenizer, prompt, draft;
  /// Of the weights, and of keys and values.
  eigenformer::Format format = eigenformer::Format::scalar, cache = eigenformer::Format::scalar;
  Index tokens = 256, beams = 1, draft_tokens = 4;
  bool look_up = false;
  double temperature = 0, top_p = 1;
  int threads = 0;
  std::uint64_t seed = 1;
};

}  // namespace generating
