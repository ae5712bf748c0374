// Softmax over scores that come block by block (Milakov and Gimelshein 2018).
#pragma once

#include <cmath>
#include <limits>
#include <type_traits>

#include "eigenformer/core/view.hpp"
#include "eigenformer/kernel/gemm.hpp"
#include "eigenformer/kernel/simd.hpp"

namespace eigenformer::inline EIGENFORMER_ABI::kernel {

/// What the forward pass keeps of a query: the weight of a key is e^(score − largest)·factor; both are 0 where nothing
/// may be attended to. The largest score is subtracted first, so however large it is, its own weight is exactly the
/// factor.
template <class T>
struct AttentionRow {
  T largest, factor;

  template <class V>
  V weight(V score) const {
    return exp_of_negative(score - V(largest)) * V(factor);
  }
};

namespace detail {

/// Running maximum and sum of a row of e^s. Scores come in whole vectors and begin with a panel, so the order
/// of summation depends on a score's place alone.
template <class T>
struct OnlineSoftmax {
  static constexpr int chains = Tile<T>::vectors;

  T largest = -std::numeric_limits<T>::infinity();
  Vec<T> sum{T{0}};

  OnlineSoftmax() = default;
  /// With a first score whose value is nothing.
  explicit OnlineSoftmax(T sink) {
    if (sink == -std::numeric_limits<T>::infinity()) return;
    largest = sink;
    T one[static_cast<std::size_t>(Vec<T>::lanes)] = {1};
    sum = Vec<T>::load(one);
  }

  /// f(c, j) for every vector of [0, padded): chain c, first element j.
  template <class F>
  static EIGENFORMER_INLINE void for_chains(Index padded, F&& f) {
    constexpr Index lanes = Vec<T>::lanes;
    Index j = 0;
    for (; j + chains * lanes <= padded; j += chains * lanes)
      unroll<chains>([&](auto c) EIGENFORMER_INLINE_LAMBDA { f(c, j + c * lanes); });
    unroll<chains>([&](auto c) EIGENFORMER_INLINE_LAMBDA {
      if (j + c * lanes < padded) f(c, j + c * lanes);
    });
  }

  /// What is subtracted from scores.
  T base() const { return largest == -std::numeric_limits<T>::infinity() ? T{0} : largest; }

  /// Takes more scores into account. Earlier weights, and the sum, are then to be multiplied by e^(the result −
  /// base()).
  T raise(const T* scores, Index padded) {
    Vec<T> most[static_cast<std::size_t>(chains)];
    unroll<chains>([&](auto c) EIGENFORMER_INLINE_LAMBDA { most[c] = Vec<T>(largest); });
    for_chains(padded, [&](auto c, Index j)
                           EIGENFORMER_INLINE_LAMBDA { most[c] = maximum(most[c], Vec<T>::load(scores + j)); });
    unroll<chains - 1>([&](auto c) EIGENFORMER_INLINE_LAMBDA { most[0] = maximum(most[0], most[c + 1]); });
    const T before = largest;
    largest = kernel::largest(most[0]);
    return before == -std::numeric_limits<T>::infinity() ? base() : before;
  }

  /// Turns them into weights e^(s − base()).
  void weigh(T* scores, Index padded) {
    Vec<T> total[static_cast<std::size_t>(chains)];
    unroll<chains>([&](auto c) EIGENFORMER_INLINE_LAMBDA { total[c] = Vec<T>(T{0}); });
    const T from = base();
    const auto weigh_some = [&](Index j, auto n) EIGENFORMER_INLINE_LAMBDA {
      const auto s = load(scores + j, n);
      using V = std::remove_const_t<decltype(s)>;
      const V weight = exp_of_negative(s - V(from));
      store(scores + j, weight, n);
      return weight;
    };
    Index j = 0;
    if constexpr (chains == VecPack<T>::count)
      for (; j + VecPack<T>::lanes <= padded; j += VecPack<T>::lanes) {
        const VecPack<T> weight = weigh_some(j, std::integral_constant<Index, VecPack<T>::lanes>());
        unroll<chains>([&](auto c) EIGENFORMER_INLINE_LAMBDA { total[c] = total[c] + weight.parts[c]; });
      }
    for_chains(padded - j, [&](auto c, Index offset) EIGENFORMER_INLINE_LAMBDA {
      total[c] = total[c] + weigh_some(j + offset, std::integral_constant<Index, Vec<T>::lanes>());
    });
    unroll<chains - 1>([&](auto c) EIGENFORMER_INLINE_LAMBDA { total[0] = total[0] + total[c + 1]; });
    sum = sum + total[0];
  }

  AttentionRow<T> row() const {
    const T all = kernel::sum(sum);
    return {base(), all > 0 || std::isnan(all) ? 1 / all : T{0}};
  }
};

}  // namespace detail

}  // namespace eigenformer::kernel
