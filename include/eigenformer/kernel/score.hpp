// Score: what happens to a score between q·k and the softmax. A Score is a type with any of
//   row(at, first, count)  → a function of (s, Index j, n) that returns the new scores of keys first + j, …, a vector
//     or a pack of them, j < count; inlined into a loop over a row. It may have derivative(s, j, n), the derivative by
//     s, which else is 1;
//   collect(at, first, count, gradients)  adds dL/d(score) of these keys to the gradient of what it learns; it is 0 of
//     what is hidden, beside which nothing that is multiplied by it counts;
//   shared_by_batch(), shared_by_heads()  with collect: whether several sequences or heads add to the same place.
// Scores come scaled, in natural units; what the mask hides is hidden afterwards. A Score may also sum up weights by
// row:
//   begin_row(at)  empties the sums;
//   add_weights(at, first, count, weights)  adds the weights of these keys, after dropout;
//   rescale_row(at, factor)  multiplies what has been summed;
//   add_dot(at, dot)  → dot + Σ sums·dL/d(sums);
//   add_weight_gradients(at, first, count, gradients)  adds what comes from the sums to dL/d(weight).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>

#include "eigenformer/core/gradient.hpp"
#include "eigenformer/core/view.hpp"
#include "eigenformer/kernel/simd.hpp"

namespace eigenformer::inline EIGENFORMER_ABI::kernel {

/// Query i of head h of sequence b; its own key is `position`.
struct ScoreRow {
  Index b, h, i, position;
};

/// Scores as they are. Any other Score has row(at, first, count) const, a functor (s, j, n) of the products s with keys
/// first + j, …; which is additive, s + something, as it says by `static constexpr bool additive = true`, or has a
/// derivative(s, j, n).
struct PlainScore {};

/// s − slope·|position − j| (ALiBi: Press, Smith, Lewis 2022), with one slope per head; symmetric, as for encoders.
template <class T>
struct AlibiScore {
  static constexpr bool additive = true;

  ConstView<T, 1> slopes;  // (H)

  auto row(const ScoreRow& at, Index first, Index) const {
    return [slope = -slopes[at.h], own = static_cast<T>(first - at.position)](auto s, Index j, auto n)
               EIGENFORMER_INLINE_LAMBDA {
                 using V = decltype(s);
                 return fma(V(slope), absolute(counting(own + static_cast<T>(j), n)), s);
               };
  }
};

namespace detail {

template <class T>
void scale_line(T* line, Index width, T by) {
  for_vectors<T>(width, [&](Index i, auto n) { store(line + i, load(line + i, n) * Vec<T>(by), n); });
}

/// The line of a row: view (B, H, N, …), an extent of 1 stands for all of B, H or N.
auto* score_line(auto view, const ScoreRow& at) {
  const auto axis_index = [&](int axis, Index given) { return view.extent(axis) == 1 ? Index{0} : given; };
  return view.data() + axis_index(0, at.b) * view.stride(0) + axis_index(1, at.h) * view.stride(1) +
         axis_index(2, at.i) * view.stride(2);
}

/// Columns column, column + 1, … of a line, a V of them; those beyond its ends are the ends.
template <class V, class T>
EIGENFORMER_INLINE V clipped_line(const V&, const T* line, Index last, Index column) {
  if (column >= 0 && column + V::lanes - 1 <= last)
    return load(line + column, std::integral_constant<Index, V::lanes>());
  T clipped[static_cast<std::size_t>(V::lanes)];
  for (Index lane = 0; lane < V::lanes; ++lane) clipped[lane] = line[std::clamp(column + lane, Index{0}, last)];
  return load(clipped, std::integral_constant<Index, V::lanes>());
}

/// The opposite: adds values to columns column, column + 1, … of a line, beyond its ends to the ends.
template <class T>
void add_clipped(T* line, Index last, Index column, const T* values, Index count) {
  const Index begin = std::clamp(-column, Index{0}, count), end = std::clamp(last + 1 - column, begin, count);
  for (Index j = 0; j < begin; ++j) line[0] += values[j];
  for_vectors<T>(end - begin, [&](Index j, auto n) {
    T* const to = line + column + begin + j;
    store(to, load(to, n) + load(values + begin + j, n), n);
  });
  for (Index j = end; j < count; ++j) line[last] += values[j];
}

/// Σ x·y where x is not 0
template <class T>
T selected_dot(const T* x, const T* y, Index count) {
  const T sum =
      sum_vectors<T>(count, [&](Index i, auto n) EIGENFORMER_INLINE_LAMBDA { return load(x + i, n) * load(y + i, n); });
  if (std::isfinite(sum)) return sum;
  return sum_vectors<T>(count, [&](Index i, auto n) EIGENFORMER_INLINE_LAMBDA {
    const Vec<T> left = load(x + i, n), none(T{0});
    return choose_less(absolute(left), Vec<T>(std::numeric_limits<T>::denorm_min()), none, left * load(y + i, n));
  });
}

}  // namespace detail

/// s + bias of the distance j − position, clipped to [−before, distances − 1 − before]: learned relative positions, by
/// head and spread out from buckets (T5: Raffel et al. 2020), or by query too (Shaw et al. 2018).
template <class T>
struct DistanceScore {
  static constexpr bool additive = true;

  ConstView<T, 4> bias;       // (B, H, N, distances), an extent of 1 stands for all of B, H or N
  Index before;               // column of distance 0
  Gradient<T, 4> gradient{};  // likewise

  auto row(const ScoreRow& at, Index first, Index) const {
    return [line = detail::score_line(bias, at), own = first - at.position + before, last = bias.extent(3) - 1](
               auto s, Index j, auto)
               EIGENFORMER_INLINE_LAMBDA { return s + detail::clipped_line(s, line, last, own + j); };
  }
  bool shared_by_batch() const { return bias.extent(0) == 1; }
  bool shared_by_heads() const { return bias.extent(1) == 1; }
  void collect(const ScoreRow& at, Index first, Index count, const T* gradients) const {
    if (gradient)
      detail::add_clipped(detail::score_line(gradient.view, at), bias.extent(3) - 1, first - at.position + before,
                          gradients, count);
  }
};

/// s + bias of every query and key: an additive mask, or any learned bias.
template <class T>
struct BiasScore {
  static constexpr bool additive = true;

  ConstView<T, 4> bias;       // (B, H, N, M), an extent of 1 stands for all of B, H or N
  Gradient<T, 4> gradient{};  // likewise

  auto row(const ScoreRow& at, Index first, Index) const {
    return [line = detail::score_line(bias, at) + first](auto s, Index j, auto n)
               EIGENFORMER_INLINE_LAMBDA { return s + load(line + j, n); };
  }
  bool shared_by_batch() const { return bias.extent(0) == 1; }
  bool shared_by_heads() const { return bias.extent(1) == 1; }
  void collect(const ScoreRow& at, Index first, Index count, const T* gradients) const {
    if (!gradient) return;
    T* const line = detail::score_line(gradient.view, at) + first;
    for_vectors<T>(count, [&](Index j, auto n) { store(line + j, load(line + j, n) + load(gradients + j, n), n); });
  }
};

/// s + scale·query·key of the distance: relative positions that the content of the query weighs (Transformer-XL: Dai et
/// al. 2019). The products of a row are computed where they are needed, for some keys at a time.
template <class T, Index Longest>
struct RelativeProductScore {
  static constexpr bool additive = true;

  ConstView<T, 4> query;  // (B, N, H, E)
  ConstView<T, 3> key;    // (H, E, distances), column distance + before; there is one for every distance that occurs
  Index before;
  T scale;
  Gradient<T, 4> dquery{};  // like query
  Gradient<T, 3> dkey{};    // like key

  auto row(const ScoreRow& at, Index first, Index count) const {
    Row row;
    const T* const q = &query(at.b, at.i, at.h, 0);
    std::fill_n(row.line, count, T{0});
    for (Index e = 0; e < query.extent(3); ++e) {
      const T* const line = &key(at.h, e, 0) + first - at.position + before;
      const T factor = q[e] * scale;
      for_vec_packs<T>(count, [&](Index j, auto n) EIGENFORMER_INLINE_LAMBDA {
        auto sum = load(row.line + j, n);
        sum = fma(decltype(sum)(factor), load(line + j, n), sum);
        store(row.line + j, sum, n);
      });
    }
    return row;
  }
  bool shared_by_batch() const { return true; }
  bool shared_by_heads() const { return false; }
  void collect(const ScoreRow& at, Index first, Index count, const T* gradients) const {
    const T* const q = &query(at.b, at.i, at.h, 0);
    for (Index e = 0; e < query.extent(3); ++e) {
      const Index column = first - at.position + before;
      const T* const line = &key(at.h, e, 0) + column;
      if (dquery) dquery.view(at.b, at.i, at.h, e) += scale * detail::selected_dot(gradients, line, count);
      if (!dkey) continue;
      T* const to = &dkey.view(at.h, e, 0) + column;
      const T factor = q[e] * scale;
      if (std::isfinite(factor))
        for_vectors<T>(count, [&](Index j, auto n) {
          store(to + j, fma(Vec<T>(factor), load(gradients + j, n), load(to + j, n)), n);
        });
      else
        for (Index j = 0; j < count; ++j) to[j] += gradients[j] != 0 ? factor * gradients[j] : T{0};
    }
  }

 private:
  struct Row {
    T line[static_cast<std::size_t>(Longest)];
    template <class V>
    EIGENFORMER_INLINE V operator()(V s, Index j, auto n) const {
      return s + load(line + j, n);
    }
  };
};

/// cap·tanh(s/cap): no score leaves [−cap, cap] (Gemma Team 2024).
template <class T>
struct CappedScore {
  T cap;

  auto row(const ScoreRow&, Index, Index) const { return Row{cap, 1 / cap}; }

 private:
  struct Row {
    T cap, inverse;
    template <class V>
    EIGENFORMER_INLINE V operator()(V s, Index, auto) const {
      return V(cap) * tanh(s * V(inverse));
    }
    template <class V>
    EIGENFORMER_INLINE V derivative(V s, Index, auto) const {
      const V bent = tanh(s * V(inverse));
      return V(T{1}) - bent * bent;
    }
  };
};

/// A score, and the sums of the weights by distance, which relative values are mixed by (Shaw et al. 2018): column
/// distance + sums_before, clipped at the ends.
template <class T, class Score>
struct DistanceSums : Score {
  View<T, 4> sums;          // (B, H, N, distances)
  ConstView<T, 4> dsums{};  // dL/d(sums), for the backward pass; null: none
  Index sums_before = 0;

  void begin_row(const ScoreRow& at) const { std::fill_n(&sums(at.b, at.h, at.i, 0), sums.extent(3), T{0}); }
  void rescale_row(const ScoreRow& at, T factor) const {
    detail::scale_line(&sums(at.b, at.h, at.i, 0), sums.extent(3), factor);
  }
  void add_weights(const ScoreRow& at, Index first, Index count, const T* weights) const {
    detail::add_clipped(&sums(at.b, at.h, at.i, 0), sums.extent(3) - 1, first - at.position + sums_before, weights,
                        count);
  }
  T add_dot(const ScoreRow& at, T dot) const {
    if (!dsums) return dot;
    return dot + detail::selected_dot<T>(&sums(at.b, at.h, at.i, 0), &dsums(at.b, at.h, at.i, 0), dsums.extent(3));
  }
  void add_weight_gradients(const ScoreRow& at, Index first, Index count, T* gradients) const {
    if (!dsums) return;
    const T* const line = &dsums(at.b, at.h, at.i, 0);
    for_vec_packs<T>(count, [&](Index j, auto n) EIGENFORMER_INLINE_LAMBDA {
      const auto some = load(gradients + j, n);
      store(gradients + j,
            some + detail::clipped_line(some, line, dsums.extent(3) - 1, first + j - at.position + sums_before), n);
    });
  }
};

namespace detail {

template <class Score>
concept HasRow = requires(const Score& score) {
  score.row(ScoreRow{}, Index{}, Index{});
};
template <class Score>
concept HasHooks = requires(Score& score) {
  score.begin_row(ScoreRow{});
};
template <class Score, class T>
concept Collects = requires(Score& score, const T* gradients) {
  score.collect(ScoreRow{}, Index{}, Index{}, gradients);
};

/// What the forward pass calls of a Score, for a row at a time: its type is forgotten, so that the pass is compiled
/// once, not once for every score.
template <class T>
class ForwardScore {
 public:
  template <class Score>
  explicit ForwardScore(const Score& score) : score_(&score) {
    static_assert(HasRow<Score> || std::is_base_of_v<PlainScore, Score>,
                  "a Score has row(at, first, count) const, or is a PlainScore");
    static_assert((HasHooks<Score> == HasHooks<const Score>)&&(Collects<Score, T> == Collects<const Score, T>),
                  "begin_row() and collect() of a Score are const");
    if constexpr (HasRow<Score>)
      apply_ = [](const void* of, const ScoreRow& at, Index first, Index count, T* scores) {
        const auto f = static_cast<const Score*>(of)->row(at, first, count);
        for_vec_packs<T>(count, [&](Index j, auto n)
                                    EIGENFORMER_INLINE_LAMBDA { store(scores + j, f(load(scores + j, n), j, n), n); });
      };
    if constexpr (HasHooks<const Score>) {
      begin_row_ = [](const void* of, const ScoreRow& at) { static_cast<const Score*>(of)->begin_row(at); };
      rescale_row_ = [](const void* of, const ScoreRow& at, T factor) {
        static_cast<const Score*>(of)->rescale_row(at, factor);
      };
      add_weights_ = [](const void* of, const ScoreRow& at, Index first, Index count, const T* weights) {
        static_cast<const Score*>(of)->add_weights(at, first, count, weights);
      };
    }
  }

  /// Products become scores, in place.
  void apply(const ScoreRow& at, Index first, Index count, T* scores) const {
    if (apply_) apply_(score_, at, first, count, scores);
  }
  bool adds_weights() const { return add_weights_; }
  void begin_row(const ScoreRow& at) const {
    if (begin_row_) begin_row_(score_, at);
  }
  void rescale_row(const ScoreRow& at, T factor) const {
    if (rescale_row_) rescale_row_(score_, at, factor);
  }
  void add_weights(const ScoreRow& at, Index first, Index count, const T* weights) const {
    if (add_weights_) add_weights_(score_, at, first, count, weights);
  }

 protected:
  const void* score_;

 private:
  void (*apply_)(const void* of, const ScoreRow& at, Index first, Index count, T* scores) = nullptr;
  void (*begin_row_)(const void* of, const ScoreRow& at) = nullptr;
  void (*rescale_row_)(const void* of, const ScoreRow& at, T factor) = nullptr;
  void (*add_weights_)(const void* of, const ScoreRow& at, Index first, Index count, const T* weights) = nullptr;
};

/// Likewise what the backward pass calls.
template <class T>
class BackwardScore : public ForwardScore<T> {
 public:
  template <class Score>
  explicit BackwardScore(const Score& score) : ForwardScore<T>(score) {
    constexpr bool differentiable = requires {
      score.row(ScoreRow{}, Index{}, Index{}).derivative(Vec<T>(), Index{}, Index{});
    };
    static_assert(
        !HasRow<Score> || differentiable || requires { requires Score::additive; },
        "the row of a Score has a derivative(), or the Score says that it is additive");
    if constexpr (differentiable)
      differentiate_ = [](const void* of, const ScoreRow& at, Index first, Index count, const T* raw, T* gradients) {
        const auto f = static_cast<const Score*>(of)->row(at, first, count);
        for_vec_packs<T>(count, [&](Index j, auto n) EIGENFORMER_INLINE_LAMBDA {
          store(gradients + j, load(gradients + j, n) * f.derivative(load(raw + j, n), j, n), n);
        });
      };
    if constexpr (Collects<const Score, T>) {
      collect_ = [](const void* of, const ScoreRow& at, Index first, Index count, const T* gradients) {
        static_cast<const Score*>(of)->collect(at, first, count, gradients);
      };
      shared_by_batch_ = score.shared_by_batch(), shared_by_heads_ = score.shared_by_heads();
    }
    if constexpr (HasHooks<const Score>) {
      add_dot_ = [](const void* of, const ScoreRow& at, T dot) {
        return static_cast<const Score*>(of)->add_dot(at, dot);
      };
      add_weight_gradients_ = [](const void* of, const ScoreRow& at, Index first, Index count, T* gradients) {
        static_cast<const Score*>(of)->add_weight_gradients(at, first, count, gradients);
      };
    }
  }

  bool has_derivative() const { return differentiate_; }
  bool shared_by_batch() const { return shared_by_batch_; }
  bool shared_by_heads() const { return shared_by_heads_; }
  /// dL/d(score) becomes dL/d(raw): of what apply() was given.
  void differentiate(const ScoreRow& at, Index first, Index count, const T* raw, T* gradients) const {
    if (differentiate_) differentiate_(score(), at, first, count, raw, gradients);
  }
  void collect(const ScoreRow& at, Index first, Index count, const T* gradients) const {
    if (collect_) collect_(score(), at, first, count, gradients);
  }
  T add_dot(const ScoreRow& at, T dot) const { return add_dot_ ? add_dot_(score(), at, dot) : dot; }
  void add_weight_gradients(const ScoreRow& at, Index first, Index count, T* gradients) const {
    if (add_weight_gradients_) add_weight_gradients_(score(), at, first, count, gradients);
  }

 private:
  const void* score() const { return this->score_; }

  bool shared_by_batch_ = false, shared_by_heads_ = false;
  void (*differentiate_)(const void* of, const ScoreRow& at, Index first, Index count, const T* raw,
                         T* gradients) = nullptr;
  void (*collect_)(const void* of, const ScoreRow& at, Index first, Index count, const T* gradients) = nullptr;
  T (*add_dot_)(const void* of, const ScoreRow& at, T dot) = nullptr;
  void (*add_weight_gradients_)(const void* of, const ScoreRow& at, Index first, Index count, T* gradients) = nullptr;
};

}  // namespace detail

}  // namespace eigenformer::kernel
