// Relative positions in buckets (T5: Raffel et al. 2020): small distances have one each, larger ones share them by
// logarithm.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "eigenformer/core/error.hpp"
#include "eigenformer/core/gradient.hpp"
#include "eigenformer/core/view.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

struct RelativeBuckets {
  Index count = 32;           ///< of buckets
  Index furthest = 128;       ///< distances from here on share the last one
  bool bidirectional = true;  ///< half of them for keys after the query; else those share bucket 0

  /// Throws unless there is a bucket for every distance.
  void validate() const {
    const Index exact = (bidirectional ? count / 2 : count) / 2;
    ensure(exact > 0 && furthest > exact, "relative", "cannot put distances up to ", furthest, " into ", count,
           " buckets");
  }

  /// The bucket of distance = key − query.
  Index operator()(Index distance) const {
    const Index half = bidirectional ? count / 2 : count, exact = half / 2,
                base = bidirectional && distance > 0 ? half : 0;
    const Index away = bidirectional ? (std::abs)(distance) : (std::max)(-distance, Index{0});
    if (away < exact) return base + away;
    const double ratio = std::log(static_cast<double>(away) / static_cast<double>(exact)) /
                         std::log(static_cast<double>(furthest) / static_cast<double>(exact));
    return base + (std::min)(exact + static_cast<Index>(ratio * static_cast<double>(half - exact)), half - 1);
  }
};

namespace kernel {

/// bias (H, distances) of column d, distance d − before, from table (buckets, H).
template <class T>
void spread_buckets(ConstView<T, 2> table, const RelativeBuckets& buckets, Index before, View<T, 2> bias) {
  for (Index d = 0; d < bias.extent(1); ++d)
    for (Index h = 0; h < bias.extent(0); ++h) bias(h, d) = table(buckets(d - before), h);
}

/// dtable ← Σ over the distances of a bucket of dbias
template <class T>
void collect_buckets(ConstView<T, 2> dbias, const RelativeBuckets& buckets, Index before, Gradient<T, 2> dtable) {
  if (!dtable) return;
  if (!dtable.add) dtable.view.matrix().setZero();
  for (Index d = 0; d < dbias.extent(1); ++d)
    for (Index h = 0; h < dbias.extent(0); ++h) dtable.view(buckets(d - before), h) += dbias(h, d);
}

}  // namespace kernel
}  // namespace eigenformer
