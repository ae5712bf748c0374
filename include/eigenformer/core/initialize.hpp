// Initial values of weights.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "eigenformer/core/random.hpp"
#include "eigenformer/core/visit.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

/// Gives every weight the initial value that its Leaf names; the same seed gives the same values on every platform.
///   Init::half, tiny  ½, 10⁻⁴
///   Init::xavier     uniform in ±√(6 / (In + Out)) (Glorot and Bengio 2010), for a weight (Out, In)
///   Init::embedding  normal with standard deviation 1/√D, for a table (V, D) whose rows are scaled by √D when looked
///   up
template <class Model>
void initialize(Model& model, std::uint64_t seed) {
  std::uint32_t stream = 0;
  walk(
      [&](const Leaf& leaf, auto& tensor) {
        using T = std::remove_reference_t<decltype(*tensor.data())>;
        RandomSequence random(seed, stream++);
        T* const values = tensor.data();
        const Index count = tensor.size();
        const auto width = static_cast<double>(tensor.shape().width()),
                   rows = static_cast<double>(tensor.shape().rows());
        const auto draw = [&](auto&& next) { std::generate_n(values, count, [&] { return static_cast<T>(next()); }); };
        switch (leaf.init) {
          case Init::zeros: return draw([] { return 0.0; });
          case Init::ones: return draw([] { return 1.0; });
          case Init::half: return draw([] { return 0.5; });
          case Init::tiny: return draw([] { return 1e-4; });
          case Init::xavier:
            return draw([&, bound = std::sqrt(6 / (width + rows))] { return bound * (2 * random.uniform() - 1); });
          case Init::embedding:
            return draw([&, deviation = 1 / std::sqrt(width)] { return deviation * random.normal(); });
        }
      },
      model);
}

/// Throws if the model was made and never given values: all weights that initialize() would not leave at zero are zero.
/// Looks no further than the first that is not. Weights without values in memory pass.
template <class Model>
void require_initialized(const Model& model, std::string_view place) {
  bool zeros = false;
  walk(
      [&](const Leaf& leaf, const auto& tensor) {
        using T = typename std::remove_cvref_t<decltype(tensor)>::Value;
        if constexpr (std::is_same_v<T, NoValue>) return true;
        else {
          if constexpr (requires { tensor.keeps_values(); })
            if (!tensor.keeps_values()) return true;
          if (leaf.init == Init::zeros || tensor.size() == 0) return false;
          zeros = std::all_of(tensor.data(), tensor.data() + tensor.size(), [](T x) { return x == T{0}; });
          return !zeros;
        }
      },
      model);
  ensure(!zeros, place, "all weights are zero: call initialize(model, seed), or load them, before the model is used");
}

/// Fails if a part of a model, by the first of its dotted names, was forgotten: several weights that begin with other
/// values, and all of them zero, so that none gets a gradient. One alone may be meant to begin so.
template <class Model>
void require_parts_initialized(const Model& model, std::string_view place) {
  std::string part;
  Index weights = 0;
  bool zeros = true;
  const auto finish_part = [&] {
    ensure(weights < 2 || !zeros, place, "all weights of the part \"", part, "\" are zero: initialize(model.", part,
           ", seed), or load them");
  };
  walk(
      [&](const std::string& path, const Leaf& leaf, const auto& tensor) {
        using T = typename std::remove_cvref_t<decltype(tensor)>::Value;
        if (std::string name = path.substr(0, path.find('.')); name != part) {
          finish_part();
          part = std::move(name), weights = 0, zeros = true;
        }
        if (leaf.init == Init::zeros || tensor.size() == 0) return;
        ++weights;
        if constexpr (requires { tensor.keeps_values(); }) zeros = zeros && tensor.keeps_values();
        if constexpr (std::is_same_v<T, NoValue>) zeros = false;
        else zeros = zeros && std::all_of(tensor.data(), tensor.data() + tensor.size(), [](T x) { return x == T{0}; });
      },
      model);
  finish_part();
}

}  // namespace eigenformer
