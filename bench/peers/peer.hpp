// Peer: a library that can do some of the same work.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "eigenformer/core/view.hpp"

namespace eigenformer::bench {

using Work = std::function<void()>;

/// Each function prepares what need not be repeated, such as packing the weight, and returns what is to be timed. Null:
/// the library is not asked. Arguments outlive the work.
struct Peer {
  std::string name;
  std::function<Work(ConstView<float, 2> x, ConstView<float, 2> weight, View<float, 2> y)>
      linear{};  ///< x (M, In) · weight (Out, In)ᵀ
  std::function<Work(ConstView<float, 2> x, ConstView<float, 1> scale, ConstView<float, 1> shift, View<float, 2> y)>
      layer_norm{};
  std::function<Work(ConstView<float, 2> x, View<float, 2> y)> softmax{}, gelu{};
};

/// Every source file of a library adds itself.
inline std::vector<Peer>& peers() {
  static std::vector<Peer> all;
  return all;
}

}  // namespace eigenformer::bench
