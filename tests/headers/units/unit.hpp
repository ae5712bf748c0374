// What a translation unit does with the library, for another one that is compiled with other flags.
#pragma once

#include <cstddef>
#include <eigenformer/eigenformer.hpp>
#include <memory>
#include <vector>

struct Unit {
  std::vector<std::size_t> (*layout)();  // sizes and alignments of our types
  std::unique_ptr<eigenformer::Context> (*context)(int threads);
  eigenformer::Linear<float> (*layer)(eigenformer::Index in, eigenformer::Index out);
  eigenformer::Tensor<float, 2> (*apply)(std::unique_ptr<eigenformer::Context>, eigenformer::Linear<float>,
                                         const eigenformer::Tensor<float, 2>& x);  // and frees context and layer
};

extern const Unit plain, wide;
