// The four linear maps that every kind of attention has, and its numbers.
#pragma once

#include "eigenformer/core/visit.hpp"
#include "eigenformer/layer/attention/config.hpp"
#include "eigenformer/layer/linear.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

template <Real T = float>
struct AttentionProjections {
  Linear<T> query;   // (H·E, D)
  Linear<T> key;     // (K·E, D)
  Linear<T> value;   // (K·E, D)
  Linear<T> output;  // (D, H·E)
  Fixed<Index> head_width;
  Fixed<double> scale, dropout;

  /// Of the completed config of any kind of attention.
  template <class Config>
  explicit AttentionProjections(const Config& config)
      : query({*config.width, *config.heads * config.head_width, config.bias}),
        key({*config.width, config.kv_heads * config.head_width, *config.key_bias}),
        value({*config.width, config.kv_heads * config.head_width, *config.value_bias}),
        output({*config.heads * config.head_width, *config.width, *config.output_bias}), head_width(config.head_width),
        scale(*config.scale), dropout(*config.dropout) {}

  /// An empty cache of what this attention computes.
  KvCache<T> cache(Index sequences, Format format = Format::scalar, Index window = 0) const {
    return {sequences, key.weight.extent(0) / head_width, head_width, window, format};
  }

  static void visit(auto&& f, auto&... m) {
    f("query", m.query...);
    f("key", m.key...);
    f("value", m.value...);
    f("output", m.output...);
  }
};

}  // namespace eigenformer
