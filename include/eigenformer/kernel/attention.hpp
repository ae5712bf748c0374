// Scaled dot-product attention (Vaswani et al. 2017, equation 1): softmax(scale·q·kᵀ)·v for every head.
// Blocks of queries at a time: the scores of all queries against all keys never exist together.
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <limits>

#include "eigenformer/core/arena.hpp"
#include "eigenformer/core/gradient.hpp"
#include "eigenformer/core/threads.hpp"
#include "eigenformer/core/view.hpp"
#include "eigenformer/kernel/dropout.hpp"
#include "eigenformer/kernel/mask.hpp"
#include "eigenformer/kernel/row.hpp"

namespace eigenformer::kernel {

/// Query head h uses key-value head h / (H/K); H is a multiple of K. Any strides, so heads may lie side by side in a row.
template <class T>
struct AttentionInputs {
  ConstView<T, 4> query;  // (B, N, H, E)
  ConstView<T, 4> key;    // (B, M, K, E)
  ConstView<T, 4> value;  // (B, M, K, E)
  T scale;
  Mask mask{};
  Dropout dropout{};  // on the weights, row (b·H + h)·N + n, column m

  Index group() const { return query.extent(2) / key.extent(2); }
};

namespace detail {

inline constexpr Index query_block = 32;

/// One head of one sequence as a matrix (tokens, E).
template <class T>
MatrixMap<T> head(View<T, 4> x, Index b, Index h) {
  return {&x(b, 0, h, 0), x.extent(1), x.extent(3), Eigen::OuterStride<>(x.stride(1))};
}

/// Some queries of one head, and how many keys the longest-sighted of them may see.
struct QueryBlock {
  Index b, h, begin, count, keys;
};

template <class T>
QueryBlock query_block_at(const AttentionInputs<T>& in, Index b, Index h, Index begin) {
  const Index queries = in.query.extent(1);
  QueryBlock block{b, h, begin, (std::min)(query_block, queries - begin), 0};
  for (Index i = begin; i < begin + block.count; ++i)
    block.keys = (std::max)(block.keys, in.mask.key_end(b, i, queries, in.key.extent(1)));
  return block;
}

/// scores (count, keys) = scale·q·kᵀ, −inf where masked.
template <class T>
void masked_scores(const AttentionInputs<T>& in, const QueryBlock& block, MatrixMap<T> scores) {
  const auto query = head(in.query, block.b, block.h), key = head(in.key, block.b, block.h / in.group());
  scores.noalias() = query.middleRows(block.begin, block.count) * key.topRows(block.keys).transpose() * in.scale;
  for (Index i = 0; i < block.count; ++i) {
    const Index end = in.mask.key_end(block.b, block.begin + i, in.query.extent(1), in.key.extent(1));
    for (Index j = 0; j < block.keys; ++j)
      if (j >= end || !in.mask.allows(block.b, block.h, block.begin + i, j)) scores(i, j) = -std::numeric_limits<T>::infinity();
  }
}

/// f(j, factor) for the dropout factors of one row of weights.
template <class T, class F>
void dropout_weights(const AttentionInputs<T>& in, const QueryBlock& block, Index i, F&& f) {
  const Index row = (block.b * in.query.extent(2) + block.h) * in.query.extent(1) + block.begin + i;
  in.dropout.template for_row<T>(row, block.keys, f);
}

template <class T>
MatrixMap<T> matrix_in(T* memory, Index rows, Index columns) {
  return {memory, rows, columns, Eigen::OuterStride<>(columns)};
}

}  // namespace detail

/// output (B, N, H, E); log_sum_exp (B, H, N) is kept for the backward pass, −inf where nothing may be attended to.
template <class T>
void attention_forward(const Threads& threads, Arena& arena, const AttentionInputs<T>& in, View<T, 4> output,
                       View<T, 3> log_sum_exp) {
  const Index batch = in.query.extent(0), queries = in.query.extent(1), heads = in.query.extent(2), keys = in.key.extent(1);
  const Index blocks = (queries + detail::query_block - 1) / detail::query_block;
  const auto scratch = arena.allocate<T>(Shape{Index{threads.count()}, detail::query_block * keys});
  threads.parallel_for(batch * heads * blocks, 1, [&](Index task, Index, int slot) {
    const Index b = task / (heads * blocks), h = task / blocks % heads;
    const auto block = detail::query_block_at(in, b, h, task % blocks * detail::query_block);
    auto weights = detail::matrix_in(scratch.row(slot), block.count, block.keys);
    detail::masked_scores(in, block, weights);
    for (Index i = 0; i < block.count; ++i) {
      auto row = weights.row(i).array();
      const T largest = block.keys > 0 ? row.maxCoeff() : -std::numeric_limits<T>::infinity();
      T& kept = log_sum_exp(b, h, block.begin + i);
      if (largest == -std::numeric_limits<T>::infinity()) {
        row.setZero();
        kept = largest;
        continue;
      }
      for (Index j = 0; j < block.keys; ++j) row[j] = std::exp(row[j] - largest);
      const T sum = row.sum();
      row /= sum;
      kept = largest + std::log(sum);
      if (in.dropout) detail::dropout_weights(in, block, i, [&](Index j, T factor) { row[j] *= factor; });
    }
    detail::head(output, b, h).middleRows(block.begin, block.count).noalias() =
        weights * detail::head(in.value, b, h / in.group()).topRows(block.keys);
  });
}

/// The derivatives, from output, log_sum_exp and doutput; the weights are computed again, block by block.
template <class T>
void attention_backward(const Threads& threads, Arena& arena, const AttentionInputs<T>& in, ConstView<T, 4> output,
                        ConstView<T, 3> log_sum_exp, ConstView<T, 4> doutput, Gradient<T, 4> dquery, Gradient<T, 4> dkey,
                        Gradient<T, 4> dvalue) {
  const Index batch = in.query.extent(0), queries = in.query.extent(1), keys = in.key.extent(1), key_heads = in.key.extent(2);
  const auto scratch = arena.allocate<T>(Shape{Index{threads.count()}, Index{3}, detail::query_block * keys});
  threads.parallel_for(batch * key_heads, 1, [&](Index task, Index, int slot) {
    const Index b = task / key_heads, g = task % key_heads;
    const auto key = detail::head(in.key, b, g), value = detail::head(in.value, b, g);
    if (dkey && !dkey.add) detail::head(dkey.view, b, g).setZero();
    if (dvalue && !dvalue.add) detail::head(dvalue.view, b, g).setZero();
    for (Index h = g * in.group(); h < (g + 1) * in.group(); ++h) {
      for (Index begin = 0; begin < queries; begin += detail::query_block) {
        const auto block = detail::query_block_at(in, b, h, begin);
        auto weights = detail::matrix_in(&scratch(slot, 0, 0), block.count, block.keys);
        auto dropped = detail::matrix_in(&scratch(slot, 1, 0), block.count, block.keys);
        auto slopes = detail::matrix_in(&scratch(slot, 2, 0), block.count, block.keys);
        const auto dout = detail::head(doutput, b, h).middleRows(begin, block.count);
        const auto out = detail::head(output, b, h).middleRows(begin, block.count);
        detail::masked_scores(in, block, weights);
        slopes.noalias() = dout * value.topRows(block.keys).transpose();
        for (Index i = 0; i < block.count; ++i) {
          auto row = weights.row(i).array();
          auto slope = slopes.row(i).array();
          const T log_sum = log_sum_exp(b, h, begin + i);
          if (log_sum == -std::numeric_limits<T>::infinity()) row.setZero();
          else for (Index j = 0; j < block.keys; ++j) row[j] = std::exp(row[j] - log_sum);
          dropped.row(i).array() = row;
          if (in.dropout)
            detail::dropout_weights(in, block, i, [&](Index j, T factor) { dropped(i, j) *= factor, slope[j] *= factor; });
          slope = row * (slope - dout.row(i).dot(out.row(i))) * in.scale;
        }
        if (dvalue) detail::head(dvalue.view, b, g).topRows(block.keys).noalias() += dropped.transpose() * dout;
        if (dkey) {
          const auto query = detail::head(in.query, b, h).middleRows(begin, block.count);
          detail::head(dkey.view, b, g).topRows(block.keys).noalias() += slopes.transpose() * query;
        }
        if (dquery)
          dquery.put(detail::head(dquery.view, b, h).middleRows(begin, block.count).noalias(), slopes * key.topRows(block.keys));
      }
    }
  });
}

}  // namespace eigenformer::kernel
