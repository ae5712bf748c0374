// Products with a weight (Out, In): y = x·wᵀ + b and its two derivatives.
#pragma once

#include <Eigen/Core>

#include "eigenformer/core/gradient.hpp"
#include "eigenformer/core/threads.hpp"
#include "eigenformer/core/view.hpp"

namespace eigenformer::kernel {

inline constexpr Index linear_grain = 64;  // rows of a piece

/// y (M, Out) = x (M, In) · w (Out, In)ᵀ + bias (Out), which may be null.
template <class T>
void linear_forward(const Threads& threads, ConstView<T, 2> x, ConstView<T, 2> weight, ConstView<T, 1> bias, View<T, 2> y) {
  const auto w = weight.matrix();
  threads.parallel_for(x.rows(), linear_grain, [&](Index begin, Index end) {
    auto rows = y.slice(0, begin, end - begin).matrix();
    rows.noalias() = x.slice(0, begin, end - begin).matrix() * w.transpose();
    if (bias) rows.rowwise() += Eigen::Map<const Eigen::Matrix<T, 1, Eigen::Dynamic>>(bias.data(), bias.size());
  });
}

/// dx (M, In) ← dy (M, Out) · w (Out, In)
template <class T>
void linear_backward_input(const Threads& threads, ConstView<T, 2> dy, ConstView<T, 2> weight, Gradient<T, 2> dx) {
  if (!dx) return;
  const auto w = weight.matrix();
  threads.parallel_for(dy.rows(), linear_grain, [&](Index begin, Index end) {
    dx.put(dx.view.slice(0, begin, end - begin).matrix().noalias(), dy.slice(0, begin, end - begin).matrix() * w);
  });
}

/// dw (Out, In) ← dyᵀ · x; dbias (Out) ← Σ over rows of dy
template <class T>
void linear_backward_weight(const Threads& threads, ConstView<T, 2> dy, ConstView<T, 2> x, Gradient<T, 2> dweight,
                            Gradient<T, 1> dbias) {
  threads.parallel_for(dy.width(), linear_grain, [&](Index begin, Index end) {
    const auto columns = dy.slice(1, begin, end - begin).matrix();
    if (dweight) dweight.put(dweight.view.slice(0, begin, end - begin).matrix().noalias(), columns.transpose() * x.matrix());
    if (dbias) {
      Eigen::Map<Eigen::Matrix<T, 1, Eigen::Dynamic>> sums(dbias.view.data() + begin, end - begin);
      dbias.put(sums, columns.colwise().sum());
    }
  });
}

}  // namespace eigenformer::kernel
