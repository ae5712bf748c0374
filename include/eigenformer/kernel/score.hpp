// Score: what happens to a score between q·k and the softmax, inlined into the attention kernels. A Score is a type with
//   row(at, first)         → a function of (s, Index j, n) that returns the new scores of keys first + j, …, a vector or a
//                            lot of them;
//                            it may have slope(s, j, n), the derivative by s, which else is 1;
//   collect(at, first, count, slopes)   optional: adds dL/d(score) of these keys to the gradient of what it learns;
//   shared_by_batch(), shared_by_heads()  with collect: whether several sequences or heads add to the same place.
// Scores come scaled, in natural units; what the mask hides is hidden afterwards.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <type_traits>

#include "eigenformer/core/gradient.hpp"
#include "eigenformer/core/view.hpp"
#include "eigenformer/kernel/simd.hpp"

namespace eigenformer::kernel::inline EIGENFORMER_SIMD {

/// Query i of head h of sequence b; its own key is `position`.
struct ScoreRow {
  Index b, h, i, position;
};

/// Scores as they are.
struct PlainScore {};

/// s − slope·|position − j| (ALiBi: Press, Smith, Lewis 2022), with one slope per head; symmetric, as for encoders.
template <class T>
struct AlibiScore {
  ConstView<T, 1> slopes;  // (H)

  auto row(const ScoreRow& at, Index first) const {
    return [slope = -slopes[at.h], own = static_cast<T>(first - at.position)](auto s, Index j, auto n) EIGENFORMER_INLINE_LAMBDA {
      using V = decltype(s);
      return fma(V(slope), absolute(counting(own + static_cast<T>(j), n)), s);
    };
  }
};

/// s + bias of the distance j − position, clipped to [−before, distances − 1 − before], by head: learned relative positions
/// (T5: Raffel et al. 2020), spread out from buckets to distances.
template <class T>
struct DistanceScore {
  ConstView<T, 2> bias;        // (H, distances)
  Index before;                // column of distance 0
  Gradient<T, 2> gradient{};   // (H, distances)

  auto row(const ScoreRow& at, Index first) const {
    const T* const line = bias.row(at.h);
    const Index own = first - at.position + before, last = bias.width() - 1;
    return [=](auto s, Index j, auto n) EIGENFORMER_INLINE_LAMBDA {
      constexpr Index lanes = decltype(s)::lanes;
      const Index column = own + j;
      if (column >= 0 && column + lanes - 1 <= last) return s + load(line + column, n);
      T clipped[static_cast<std::size_t>(lanes)];
      for (Index lane = 0; lane < lanes; ++lane) clipped[lane] = line[std::clamp(column + lane, Index{0}, last)];
      return s + load(clipped, std::integral_constant<Index, lanes>());
    };
  }
  bool shared_by_batch() const { return true; }
  bool shared_by_heads() const { return false; }
  void collect(const ScoreRow& at, Index first, Index count, const T* slopes) const {
    if (!gradient) return;
    T* const line = gradient.row(at.h);
    const Index own = first - at.position + before, last = bias.width() - 1;
    const Index begin = std::clamp(-own, Index{0}, count), end = std::clamp(last + 1 - own, begin, count);
    for (Index j = 0; j < begin; ++j) line[0] += slopes[j];
    for_vectors<T>(end - begin, [&](Index j, auto n) {
      T* const to = line + own + begin + j;
      store(to, load(to, n) + load(slopes + begin + j, n), n);
    });
    for (Index j = end; j < count; ++j) line[last] += slopes[j];
  }
};

/// s + bias of every query and key: an additive mask, or any learned bias.
template <class T>
struct BiasScore {
  ConstView<T, 4> bias;       // (B, H, N, M), an extent of 1 stands for all of B, H or N
  Gradient<T, 4> gradient{};  // likewise

  auto row(const ScoreRow& at, Index first) const {
    return [line = place(bias, at) + first](auto s, Index j, auto n) EIGENFORMER_INLINE_LAMBDA { return s + load(line + j, n); };
  }
  bool shared_by_batch() const { return bias.extent(0) == 1; }
  bool shared_by_heads() const { return bias.extent(1) == 1; }
  void collect(const ScoreRow& at, Index first, Index count, const T* slopes) const {
    if (!gradient) return;
    T* const line = place(gradient.view, at) + first;
    for_vectors<T>(count, [&](Index j, auto n) { store(line + j, load(line + j, n) + load(slopes + j, n), n); });
  }

 private:
  static auto* place(auto view, const ScoreRow& at) {
    const auto index = [&](int axis, Index given) { return view.extent(axis) == 1 ? Index{0} : given; };
    return view.data() + index(0, at.b) * view.stride(0) + index(1, at.h) * view.stride(1) + index(2, at.i) * view.stride(2);
  }
};

/// cap·tanh(s/cap): no score leaves [−cap, cap] (Gemma Team 2024).
template <class T>
struct CappedScore {
  T cap;

  auto row(const ScoreRow&, Index) const { return Row{cap, 1 / cap}; }

 private:
  struct Row {
    T cap, inverse;
    template <class V>
    EIGENFORMER_INLINE V operator()(V s, Index, auto) const {
      return V(cap) * tanh(s * V(inverse));
    }
    template <class V>
    EIGENFORMER_INLINE V slope(V s, Index, auto) const {
      const V bent = tanh(s * V(inverse));
      return V(T{1}) - bent * bent;
    }
  };
};

}  // namespace eigenformer::kernel::inline EIGENFORMER_SIMD
