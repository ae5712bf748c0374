// Other ways to begin: each one function over visit, for models whose parts have our names.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "eigenformer/core/initialize.hpp"
#include "eigenformer/core/random.hpp"
#include "eigenformer/core/visit.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

namespace detail {

/// Normal with a standard deviation; truncated: nothing beyond two of them.
inline double draw_normal(RandomSequence& random, double deviation, bool truncated) {
  double value = random.normal();
  while (truncated && (std::abs)(value) > 2) value = random.normal();
  return deviation * value;
}

/// Norms and biases as initialize() does; matrices and tables normal with deviation(path, tensor).
template <class Model, class F>
void initialize_normal_by(Model& model, std::uint64_t seed, bool truncated, F&& deviation) {
  initialize(model, seed);
  std::uint32_t stream = 0;
  walk(
      [&](const std::string& path, const Leaf&, auto& tensor) {
        using T = typename std::remove_reference_t<decltype(tensor)>::Value;
        RandomSequence random(seed, ++stream);
        if (tensor.rank < 2) return;
        const double size =
            deviation(path, static_cast<double>(tensor.shape().rows()), static_cast<double>(tensor.shape().width()));
        std::generate_n(tensor.data(), tensor.size(),
                        [&] { return static_cast<T>(draw_normal(random, size, truncated)); });
      },
      model);
}

/// Whether a weight ends a branch of the residual stream.
inline bool ends_branch(const std::string& path) {
  return path.ends_with("attention.output.weight") || path.ends_with("feed_forward.down.weight");
}

}  // namespace detail

/// All matrices and tables normal (BERT: 0.02), truncated at two standard deviations if asked.
template <class Model>
void initialize_normal(Model& model, std::uint64_t seed, double deviation = 0.02, bool truncated = false) {
  detail::initialize_normal_by(model, seed, truncated, [=](const std::string&, double, double) { return deviation; });
}

/// √(2/In), for networks of ReLU (He et al. 2015)
template <class Model>
void initialize_kaiming(Model& model, std::uint64_t seed) {
  detail::initialize_normal_by(model, seed, false,
                               [](const std::string&, double, double in) { return std::sqrt(2 / in); });
}

/// Normal 0.02, and 0.02/√(2L) where a branch ends in the residual stream (Radford et al. 2019)
template <class Model>
void initialize_gpt2(Model& model, Index layers, std::uint64_t seed) {
  const double end = 0.02 / std::sqrt(2 * static_cast<double>(layers));
  detail::initialize_normal_by(model, seed, false, [=](const std::string& path, double, double) {
    return detail::ends_branch(path) ? end : 0.02;
  });
}

/// T5 (Raffel et al. 2020), whose scores are not scaled: queries 1/√(D·E), tables of tokens 1, relative biases 1/√D,
/// all other matrices 1/√In.
template <class Model>
void initialize_t5(Model& model, Index width, Index head_width, std::uint64_t seed) {
  const auto d = static_cast<double>(width), e = static_cast<double>(head_width);
  detail::initialize_normal_by(model, seed, false, [=](const std::string& path, double, double in) {
    if (path.ends_with("query.weight")) return 1 / std::sqrt(d * e);
    if (path.ends_with("embedding.weight")) return 1.0;
    return path.ends_with("position.weight") ? 1 / std::sqrt(d) : 1 / std::sqrt(in);
  });
}

/// Xavier, with values, outputs and feed-forward matrices times β (DeepNorm: Wang et al. 2022); see deep_norm_beta().
template <class Model>
void initialize_deep_norm(Model& model, double beta, std::uint64_t seed) {
  initialize(model, seed);
  walk(
      [&](const std::string& path, const Leaf&, auto& tensor) {
        using T = typename std::remove_reference_t<decltype(tensor)>::Value;
        const bool scaled = path.ends_with("value.weight") || detail::ends_branch(path) ||
                            path.find("feed_forward.") != std::string::npos;
        if (tensor.rank < 2 || !scaled) return;
        for (Index i = 0; i < tensor.size(); ++i) tensor.data()[i] *= static_cast<T>(beta);
      },
      model);
}

}  // namespace eigenformer
