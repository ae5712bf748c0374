// Dropout (Srivastava et al. 2014): an element survives with probability 1 − p and is then multiplied by 1/(1 − p).
// Whether it survives is a function of (seed, step, site, row, column), so the backward pass recomputes the mask.
#pragma once

#include <cmath>
#include <cstdint>

#include "eigenformer/core/gradient.hpp"
#include "eigenformer/core/random.hpp"
#include "eigenformer/core/threads.hpp"
#include "eigenformer/core/view.hpp"
#include "eigenformer/kernel/row.hpp"

namespace eigenformer::kernel {

/// One use of dropout. Probabilities are multiples of 2⁻¹⁶: 16 random bits per element.
struct Dropout {
  RandomSite site;
  double probability = 0;

  explicit operator bool() const { return probability > 0; }

  /// f(i, factor) for columns first + i, i < width, of a row; `first` is a multiple of 8, the factor 0 or 1/(1 − p).
  template <class T, class F>
  void for_row(Index row, Index first, Index width, F&& f) const {
    const auto threshold = static_cast<std::uint32_t>(std::lround(probability * 65536));
    const T scale = static_cast<T>(1 / (1 - probability));
    for (Index begin = 0; begin < width; begin += 8) {
      const PhiloxBlock bits = site.block(row, (first + begin) / 8);
      const Index count = (std::min)(Index{8}, width - begin);
      for (Index i = 0; i < count; ++i) {
        const std::uint32_t draw = (bits[static_cast<std::size_t>(i / 2)] >> (16 * (i % 2))) & 0xffff;
        f(begin + i, draw < threshold ? T{0} : scale);
      }
    }
  }
};

/// y = residual + dropout(x); the residual may be null, and so may the dropout. All (R, D).
template <class T>
void dropout_forward(const Threads& threads, ConstView<T, 2> x, ConstView<T, 2> residual, const Dropout& dropout, View<T, 2> y) {
  const Index width = x.width();
  threads.parallel_for(x.rows(), row_grain(width), [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      const T* const in = x.row(i);
      auto out = row_map(y.row(i), width);
      if (dropout) dropout.for_row<T>(i, 0, width, [&](Index j, T factor) { out[j] = factor == 0 ? T{0} : in[j] * factor; });
      else out = row_map(in, width);
      if (residual) out += row_map(residual.row(i), width);
    }
  });
}

/// dx ← dropout(dy), with the same mask.
template <class T>
void dropout_backward(const Threads& threads, ConstView<T, 2> dy, const Dropout& dropout, Gradient<T, 2> dx) {
  if (!dx) return;
  const Index width = dy.width();
  threads.parallel_for(dy.rows(), row_grain(width), [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      const T* const in = dy.row(i);
      T* const out = dx.row(i);
      if (!dropout) dx.put(row_map(out, width), row_map(in, width));
      else dropout.for_row<T>(i, 0, width, [&](Index j, T factor) { out[j] = (dx.add ? out[j] : T{0}) + (factor == 0 ? T{0} : in[j] * factor); });
    }
  });
}

}  // namespace eigenformer::kernel
