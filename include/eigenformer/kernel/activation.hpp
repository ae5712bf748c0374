// Activations: each is a type with value(x) and derivative(x) on vectors, for passes of their own and for
// epilogues of products. At −∞ those that tend to 0 are −0, not NaN.
#pragma once

#include <string_view>

#include "eigenformer/core/gradient.hpp"
#include "eigenformer/core/threads.hpp"
#include "eigenformer/core/view.hpp"
#include "eigenformer/kernel/row.hpp"
#include "eigenformer/kernel/simd.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

/// Empty if it has none.
template <class Activation>
constexpr std::string_view name_of() {
  if constexpr (requires { Activation::name; }) return Activation::name;
  else return {};
}

/// x
struct Identity {
  static constexpr std::string_view name = "identity";

  template <class V>
  static V value(V x) {
    return x;
  }
  template <class V>
  static V derivative(V) {
    return V(1);
  }
};

/// max(x, 0); the derivative at 0 is 0.
struct Relu {
  static constexpr std::string_view name = "relu";
  static constexpr bool gradient_from_output = true;  // its value tells its derivative: nothing else need be kept

  template <class V>
  static V value(V x) {
    return maximum(x, V(0));
  }
  template <class V>
  static V derivative(V x) {
    return where_less(V(0), x, V(1));
  }
};

/// max(x, 0)² (So et al. 2021)
struct SquaredRelu {
  static constexpr std::string_view name = "squared_relu";

  template <class V>
  static V value(V x) {
    return maximum(x, V(0)) * maximum(x, V(0));
  }
  template <class V>
  static V derivative(V x) {
    return maximum(x, V(0)) * V(2);
  }
};

/// 1 / (1 + e⁻ˣ)
struct Sigmoid {
  static constexpr std::string_view name = "sigmoid";

  template <class V>
  static V value(V x) {
    return sigmoid(x);
  }
  template <class V>
  static V derivative(V x) {
    return logistic(x).derivative;
  }
};

struct Tanh {
  static constexpr std::string_view name = "tanh";

  template <class V>
  static V value(V x) {
    return tanh(x);
  }
  template <class V>
  static V derivative(V x) {
    const V y = tanh(x);
    return V(1) - y * y;
  }
};

/// x·Φ(x), Φ the normal distribution (Hendrycks and Gimpel 2016): the exact GELU, by the error function.
struct Gelu {
  static constexpr std::string_view name = "gelu";

  template <class V>
  static V value(V x) {
    return maximum(x, V(-1000)) * normal(x).integral;
  }
  template <class V>
  static V derivative(V x) {
    const auto at = normal(x);
    return fma(maximum(minimum(x, V(1000)), V(-1000)), at.density, at.integral);
  }
};

namespace detail {

/// x·σ(z) with z = x·(a + b·x²)
template <class V>
V gated(V x, double a, double b) {
  using T = typename V::Scalar;
  const V bounded = maximum(minimum(x, V(1000)), V(-1000));
  return maximum(x, V(-1000)) * sigmoid(bounded * fma(bounded * bounded, V(static_cast<T>(b)), V(static_cast<T>(a))));
}

/// Its derivative σ(z) + x·z′·σ(z)·(1 − σ(z))
template <class V>
V gated_derivative(V x, double a, double b) {
  using T = typename V::Scalar;
  const V bounded = maximum(minimum(x, V(1000)), V(-1000)), square = bounded * bounded;
  const auto gate = logistic(bounded * fma(square, V(static_cast<T>(b)), V(static_cast<T>(a))));
  return fma(bounded * fma(square, V(static_cast<T>(3 * b)), V(static_cast<T>(a))), gate.derivative, gate.value);
}

}  // namespace detail

/// x·σ(x): SiLU, or Swish with β = 1 (Elfwing et al. 2017; Ramachandran et al. 2017)
struct Silu {
  static constexpr std::string_view name = "silu";

  template <class V>
  static V value(V x) {
    return maximum(x, V(-1000)) * sigmoid(x);
  }
  template <class V>
  static V derivative(V x) {
    return detail::gated_derivative(x, 1, 0);
  }
};

/// ½x·(1 + tanh(√(2/π)·(x + 0.044715 x³))) (Hendrycks and Gimpel 2016): the GELU of GPT-2 and the original BERT.
struct GeluTanh {
  static constexpr std::string_view name = "gelu_tanh";

  template <class V>
  static V value(V x) {
    return detail::gated(x, a, b);
  }
  template <class V>
  static V derivative(V x) {
    return detail::gated_derivative(x, a, b);
  }

 private:
  static constexpr double a = 1.5957691216057308, b = 0.044715 * a;  // 2·√(2/π)
};

/// x·σ(1.702 x) (Hendrycks and Gimpel 2016)
struct GeluSigmoid {
  static constexpr std::string_view name = "gelu_sigmoid";

  template <class V>
  static V value(V x) {
    return detail::gated(x, 1.702, 0);
  }
  template <class V>
  static V derivative(V x) {
    return detail::gated_derivative(x, 1.702, 0);
  }
};

namespace kernel {

/// y = activation(x), all (R, D)
template <class Activation, class T>
void activation_forward(const Threads& threads, ConstView<T, 2> x, View<T, 2> y) {
  const Index width = x.width();
  threads.parallel_for(x.rows(), row_grain(width), [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i)
      for_vec_packs<T>(width,
                       [&](Index j, auto n) { store(y.row(i) + j, Activation::value(load(x.row(i) + j, n)), n); });
  });
}

/// dx ← dy ∘ activation′(x)
template <class Activation, class T>
void activation_backward(const Threads& threads, ConstView<T, 2> x, ConstView<T, 2> dy, Gradient<T, 2> dx) {
  if (!dx) return;
  const Index width = x.width();
  threads.parallel_for(x.rows(), row_grain(width), [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i)
      for_vec_packs<T>(width, [&](Index j, auto n) {
        const auto gradient = load(dy.row(i) + j, n) * Activation::derivative(load(x.row(i) + j, n));
        store(dx.row(i) + j, dx.add ? load(dx.row(i) + j, n) + gradient : gradient, n);
      });
  });
}

/// An epilogue: adds bias (N), keeps that sum in `kept`, and applies the activation; the former two may be
/// null.
template <class Activation, class T>
struct ActivatedBias {
  const T* bias;
  View<T, 2> kept{};

  void operator()(Index row, Index column, T* out, Index count) const {
    T* const keep = kept ? kept.row(row) + column : nullptr;
    for_vec_packs<T>(count, [&](Index i, auto n) {
      const auto sum = bias ? load(out + i, n) + load(bias + column + i, n) : load(out + i, n);
      if (keep) store(keep + i, sum, n);
      store(out + i, Activation::value(sum), n);
    });
  }
};

}  // namespace kernel
}  // namespace eigenformer
