// What a unit does for the others.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "eigenformer/model/encoder_decoder.hpp"

namespace ef = eigenformer;

using Model = ef::EncoderDecoder<>;

struct Unit {
  const char* name;
  std::vector<std::size_t> (*layout)();  // sizes and alignments of our types
  std::unique_ptr<ef::Context> (*context)(int threads);
  Model (*model)();                                             // initialised
  ef::Tensor<float, 3> (*forward)(ef::Context&, const Model&);  // logits
  Model (*gradient)(Model model);                               // takes the model over, and frees it
  ef::ConstView<float, 2> (*halves)(ef::ConstView<float, 2>);   // the right half of the columns
};

extern const Unit baseline, avx2, avx512;
