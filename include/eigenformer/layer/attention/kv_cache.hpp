// Key-value cache: the keys and values of tokens that have passed, so that the next ones need only themselves computed.
#pragma once

#include <algorithm>
#include <utility>

#include "eigenformer/core/error.hpp"
#include "eigenformer/core/tensor.hpp"

namespace eigenformer {

/// Of one layer, for a batch whose sequences have the same length. Grows as needed.
template <Real T>
class KvCache {
 public:
  /// Tokens so far.
  Index length() const { return length_; }

  /// Appends keys and values (B, N, K, E); gives all so far, (B, M, K, E). Views of it are good until the next call.
  std::pair<ConstView<T, 4>, ConstView<T, 4>> append(ConstView<T, 4> keys, ConstView<T, 4> values) {
    const Index batch = keys.extent(0), tokens = keys.extent(1), heads = keys.extent(2), width = keys.extent(3);
    if (!keys_.data() || length_ + tokens > keys_.extent(1)) grow(Shape{batch, length_ + tokens, heads, width});
    require(keys_.extent(0) == batch && keys_.extent(2) == heads && keys_.extent(3) == width, "kv_cache", "keys ", keys.shape(), " do not fit a cache of ", keys_.shape());
    for (Index b = 0; b < batch; ++b)
      for (Index n = 0; n < tokens; ++n)
        for (Index h = 0; h < heads; ++h) {
          std::copy_n(&keys(b, n, h, 0), width, &keys_(b, length_ + n, h, 0));
          std::copy_n(&values(b, n, h, 0), width, &values_(b, length_ + n, h, 0));
        }
    length_ += tokens;
    return {std::as_const(keys_).view().slice(1, 0, length_), std::as_const(values_).view().slice(1, 0, length_)};
  }

 private:
  /// Room for so many tokens and half as many more.
  void grow(Shape<4> needed) {
    require(!keys_.data() || (keys_.extent(0) == needed[0] && keys_.extent(2) == needed[2] && keys_.extent(3) == needed[3]), "kv_cache", "keys ", needed,
            " do not fit a cache of ", keys_.shape());
    needed[1] += (std::max)(needed[1] / 2, Index{64});
    for (Tensor<T, 4>* part : {&keys_, &values_}) {
      Tensor<T, 4> larger(needed);
      for (Index b = 0; length_ > 0 && b < needed[0]; ++b) std::copy_n(&(*part)(b, 0, 0, 0), length_ * needed[2] * needed[3], &larger(b, 0, 0, 0));
      *part = std::move(larger);
    }
  }

  Tensor<T, 4> keys_, values_;  // (B, capacity, K, E)
  Index length_ = 0;
};

}  // namespace eigenformer
