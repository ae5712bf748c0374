// Feed-forward networks: activation(x·Uᵀ + b)·Dᵀ + c (Vaswani et al. 2017, equation 2), and gated
// (activation(x·Gᵀ) ∘ (x·Uᵀ))·Dᵀ (Dauphin et al. 2017; Shazeer 2020). Some rows at a time, so that their hidden values
// stay in the cache; of these, only what the backward pass cannot compute again is kept.
#pragma once

#include <algorithm>

#include "eigenformer/core/arena.hpp"
#include "eigenformer/core/gradient.hpp"
#include "eigenformer/core/threads.hpp"
#include "eigenformer/core/view.hpp"
#include "eigenformer/kernel/activation.hpp"
#include "eigenformer/kernel/gemm.hpp"
#include "eigenformer/kernel/simd.hpp"

namespace eigenformer::inline EIGENFORMER_ABI::kernel {

/// What a linear map of x is made of: x·weight + bias.
template <class T>
struct WeightAndBias {
  Operand<T> weight;       // (In, Out)
  ConstView<T, 1> bias{};  // (Out) or null
};

/// An activation whose value serves in the place of its argument: value and derivative are the same of both.
template <class Activation>
concept GradientFromOutput = requires {
  requires Activation::gradient_from_output;
};

namespace detail {

/// f(first, count) for chunks of rows whose hidden values fit the cache; larger ones where weights are packed per call.
template <class T, class F>
void for_row_chunks(Index rows, const Operand<T>& weight, F&& f) {
  const Index chunk = weight.is_packed() ? 4 * row_block : 16 * row_block;
  for (Index first = 0; first < rows; first += chunk) f(first, (std::min)(chunk, rows - first));
}

/// The epilogue of the second product of a gated pair: adds bias (N), keeps that sum in `kept`, and multiplies it by
/// activation(gate (M, N)); bias and `kept` may be null.
template <class Activation, class T>
struct GatedBias {
  const T* bias;
  ConstView<T, 2> gate;
  View<T, 2> kept{};

  void prefetch(Index row, Index column, Index count) const { prefetch_row(gate, row, column, count); }
  void operator()(Index row, Index column, T* out, Index count) const {
    const T* const by = gate.row(row) + column;
    T* const keep = kept ? kept.row(row) + column : nullptr;
    for_vec_packs<T>(count, [&](Index i, auto n) {
      const auto sum = bias ? load(out + i, n) + load(bias + column + i, n) : load(out + i, n);
      if (keep) store(keep + i, sum, n);
      store(out + i, Activation::value(load(by + i, n)) * sum, n);
    });
  }
};

/// The epilogue of the product that gives dL/d(hidden): turns it into dL/d(sum) and computes the hidden values again.
template <class Activation, class T>
struct ActivationDerivative {
  ConstView<T, 2> sum;
  View<T, 2> hidden;  // null if `sum` is that already

  void prefetch(Index row, Index column, Index count) const { prefetch_row(sum, row, column, count); }
  void operator()(Index row, Index column, T* out, Index count) const {
    const T* const in = sum.row(row) + column;
    T* const again = hidden ? hidden.row(row) + column : nullptr;
    for_vec_packs<T>(count, [&](Index i, auto n) {
      const auto at = load(in + i, n);
      if (again) store(again + i, Activation::value(at), n);
      store(out + i, load(out + i, n) * Activation::derivative(at), n);
    });
  }
};

/// Likewise for a gated network: dL/d(hidden) becomes dL/d(gate sum); dL/d(up sum) goes to `dup`.
template <class Activation, class T>
struct GateDerivative {
  ConstView<T, 2> gate, up;
  View<T, 2> dup, hidden;

  void prefetch(Index row, Index column, Index count) const {
    prefetch_row(gate, row, column, count);
    prefetch_row(up, row, column, count);
  }
  void operator()(Index row, Index column, T* out, Index count) const {
    const T *const gates = gate.row(row) + column, *const ups = up.row(row) + column;
    T *const to = dup.row(row) + column, *const again = hidden.row(row) + column;
    for_vec_packs<T>(count, [&](Index i, auto n) {
      const auto g = load(gates + i, n), u = load(ups + i, n), gradient = load(out + i, n),
                 value = Activation::value(g);
      store(again + i, value * u, n);
      store(to + i, gradient * value, n);
      store(out + i, gradient * u * Activation::derivative(g), n);
    });
  }
};

}  // namespace detail

/// y (M, D) from x (M, D); `kept` (M, F) is for the backward pass, null if there is none: x·Uᵀ + b, or activation of
/// that if it is gradient_from_output.
template <class Activation, class T>
void mlp_forward(const Threads& threads, Arena& arena, ConstView<T, 2> x, const WeightAndBias<T>& up,
                 const WeightAndBias<T>& down, View<T, 2> kept, View<T, 2> y) {
  detail::for_row_chunks(x.rows(), up.weight, [&](Index first, Index count) {
    const auto scratch = arena.scratch();
    const View<T, 2> part = kept ? kept.slice(0, first, count) : View<T, 2>();
    const View<T, 2> hidden =
        kept && GradientFromOutput<Activation> ? part : arena.allocate<T>(Shape{count, up.weight.width});
    linear_forward_then<T>(
        threads, arena, x.slice(0, first, count), up.weight, hidden,
        ActivatedBias<Activation, T>{up.bias.data(), GradientFromOutput<Activation> ? View<T, 2>() : part});
    linear_forward<T>(threads, arena, hidden, down.weight, down.bias, y.slice(0, first, count));
  });
}

/// Where the derivatives by a linear map go.
template <class T>
struct LinearGradient {
  Gradient<T, 2> weight;
  Gradient<T, 1> bias{};
};

template <class Activation, class T>
void mlp_backward(const Threads& threads, Arena& arena, ConstView<T, 2> x, const WeightAndBias<T>& up,
                  const WeightAndBias<T>& down, ConstView<T, 2> kept, ConstView<T, 2> dy, Gradient<T, 2> dx,
                  LinearGradient<T> dup, LinearGradient<T> ddown) {
  const auto scratch = arena.scratch();
  const auto dsum = arena.allocate<T>(kept.shape());
  const View<T, 2> hidden = GradientFromOutput<Activation> ? View<T, 2>() : arena.allocate<T>(kept.shape());
  linear_backward_input<T>(threads, arena, dy, down.weight, {dsum, false},
                           detail::ActivationDerivative<Activation, T>{kept, hidden});
  linear_backward_weight<T>(threads, arena, dy, hidden ? ConstView<T, 2>(hidden) : kept, ddown.weight, ddown.bias);
  linear_backward_input<T>(threads, arena, dsum, up.weight, dx);
  linear_backward_weight<T>(threads, arena, dsum, x, dup.weight, dup.bias);
}

/// y (M, D) from x (M, D); kept_gate and kept_up (M, F) are for the backward pass, null if there is none: x·Gᵀ and
/// x·Uᵀ.
template <class Activation, class T>
void gated_mlp_forward(const Threads& threads, Arena& arena, ConstView<T, 2> x, const WeightAndBias<T>& gate,
                       const WeightAndBias<T>& up, const WeightAndBias<T>& down, View<T, 2> kept_gate,
                       View<T, 2> kept_up, View<T, 2> y) {
  detail::for_row_chunks(x.rows(), up.weight, [&](Index first, Index count) {
    const auto scratch = arena.scratch();
    const auto rows = x.slice(0, first, count);
    const View<T, 2> gates =
        kept_gate ? kept_gate.slice(0, first, count) : arena.allocate<T>(Shape{count, gate.weight.width});
    const auto hidden = arena.allocate<T>(Shape{count, up.weight.width});
    linear_forward<T>(threads, arena, rows, gate.weight, gate.bias, gates);
    linear_forward_then<T>(threads, arena, rows, up.weight, hidden,
                           detail::GatedBias<Activation, T>{up.bias.data(), gates,
                                                            kept_up ? kept_up.slice(0, first, count) : View<T, 2>()});
    linear_forward<T>(threads, arena, hidden, down.weight, down.bias, y.slice(0, first, count));
  });
}

template <class Activation, class T>
void gated_mlp_backward(const Threads& threads, Arena& arena, ConstView<T, 2> x, const WeightAndBias<T>& gate,
                        const WeightAndBias<T>& up, const WeightAndBias<T>& down, ConstView<T, 2> kept_gate,
                        ConstView<T, 2> kept_up, ConstView<T, 2> dy, Gradient<T, 2> dx, LinearGradient<T> dgate,
                        LinearGradient<T> dup, LinearGradient<T> ddown) {
  const auto scratch = arena.scratch();
  const auto dgate_sum = arena.allocate<T>(kept_gate.shape()), dup_sum = arena.allocate<T>(kept_gate.shape()),
             hidden = arena.allocate<T>(kept_gate.shape());
  linear_backward_input<T>(threads, arena, dy, down.weight, {dgate_sum, false},
                           detail::GateDerivative<Activation, T>{kept_gate, kept_up, dup_sum, hidden});
  linear_backward_weight<T>(threads, arena, dy, hidden, ddown.weight, ddown.bias);
  linear_backward_input<T>(threads, arena, dgate_sum, gate.weight, dx);
  linear_backward_input<T>(threads, arena, dup_sum, up.weight, {dx.view, true});
  linear_backward_weight<T>(threads, arena, dgate_sum, x, dgate.weight, dgate.bias);
  linear_backward_weight<T>(threads, arena, dup_sum, x, dup.weight, dup.bias);
}

}  // namespace eigenformer::kernel
