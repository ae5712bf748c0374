// What a model takes of memory, and what a step reads of it.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

#include "eigenformer/core/format.hpp"
#include "eigenformer/core/visit.hpp"
#include "eigenformer/op/weight.hpp"

namespace example {

/// Bytes of all weights: as they are kept, and as a step of few tokens reads them, the values before a packed copy of
/// theirs.
struct WeightBytes {
  std::int64_t kept = 0, read = 0;

  template <class Tensor>
  void add(const Tensor& tensor) {
    const auto values =
        std::int64_t{tensor.size()} * static_cast<std::int64_t>(sizeof(typename std::remove_cvref_t<Tensor>::Value));
    if constexpr (requires { tensor.format(); }) {
      kept += tensor.bytes();
      read += tensor.format() == eigenformer::Format::scalar ? values
              : tensor.keeps_values()                        ? tensor.bytes() - values
                                                             : tensor.bytes();
    } else {
      kept += values, read += values;
    }
  }
};

template <class Model>
WeightBytes weight_bytes(const Model& model) {
  WeightBytes bytes;
  eigenformer::walk([&](const eigenformer::Leaf&, const auto& tensor) { bytes.add(tensor); }, model);
  return bytes;
}

/// "int8", or of several formats "int4, int8".
template <class Model>
std::string formats_of(const Model& model) {
  std::string text;
  for (const auto name : eigenformer::format_names) {
    bool found = false;
    eigenformer::walk(
        [&](const eigenformer::Leaf&, const auto& tensor) {
          if constexpr (requires { tensor.format(); })
            found = found || eigenformer::format_name(tensor.format()) == name;
        },
        model);
    if (found) text.append(text.empty() ? "" : ", ").append(name == "scalar" ? "float" : name);
  }
  return text;
}

}  // namespace example
