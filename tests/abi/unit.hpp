// What a unit does for the others.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "eigenformer/model/encoder_decoder.hpp"
#include "eigenformer/op/weight.hpp"

namespace ef = eigenformer;

using Model = ef::EncoderDecoder<>;

struct Unit {
  const char* name;
  std::vector<std::size_t> (*layout)();  // sizes and alignments of our types
  std::unique_ptr<ef::Context> (*context)(int threads);
  Model (*model)();                                             // initialised
  ef::Tensor<float, 3> (*forward)(ef::Context&, const Model&);  // logits
  Model (*packed)(Model model);                                 // takes the model over
  Model (*gradient)(Model model);                               // likewise, and frees it
  ef::Tensor<float, 2> (*product)(ef::Context&,
                                  const ef::Weight<float>&);   // ones (2, In)·weightᵀ, by the unit's own kernel
  ef::ConstView<float, 2> (*halves)(ef::ConstView<float, 2>);  // the right half of the columns
};

extern const Unit baseline, avx2, avx512;
