// What every kernel should compute: plain loops in double, straight from the formulas, sharing nothing with the
// kernels.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "eigenformer/core/tensor.hpp"

namespace eigenformer::test::oracle {

template <int Rank>
using Array = Tensor<double, Rank>;

/// Values, and the magnitude that rounding errors scale with: the largest sum of absolute terms of any element.
template <int Rank>
struct Expected {
  Array<Rank> values;
  double magnitude = 0;

  explicit Expected(Shape<Rank> shape) : values(shape) {}
  /// The sum with what was there before (the add form of a gradient).
  void add(const Array<Rank>& before) {
    double largest = 0;
    for (Index i = 0; i < values.size(); ++i) {
      values.data()[i] += before.data()[i];
      largest = (std::max)(largest, std::abs(before.data()[i]));
    }
    magnitude += largest;
  }
  /// For values that have no longer sums behind them than their own.
  void measure() {
    for (Index i = 0; i < values.size(); ++i) magnitude = (std::max)(magnitude, std::abs(values.data()[i]));
  }
};

/// Σ_k left(i, k)·right(k, j) + start(i, j)
inline Expected<2> product(Index rows, Index columns, Index depth, auto&& left, auto&& right, auto&& start) {
  Expected<2> y(Shape{rows, columns});
  for (Index i = 0; i < rows; ++i)
    for (Index j = 0; j < columns; ++j) {
      double sum = start(i, j), magnitude = std::abs(sum);
      for (Index k = 0; k < depth; ++k) {
        const double term = left(i, k) * right(k, j);
        sum += term;
        magnitude += std::abs(term);
      }
      y.values(i, j) = sum;
      y.magnitude = (std::max)(y.magnitude, magnitude);
    }
  return y;
}

/// x·wᵀ + b, b of size 0 for none
inline Expected<2> linear(const Array<2>& x, const Array<2>& w, const Array<1>& b) {
  return product(
      x.extent(0), w.extent(0), w.extent(1), [&](Index i, Index k) { return x(i, k); },
      [&](Index k, Index j) { return w(j, k); }, [&](Index, Index j) { return b.size() > 0 ? b(j) : 0.0; });
}

struct LayerNorm {
  Expected<2> y, dx;
  Expected<1> dweight, dbias;
};

/// The derivative through the Jacobian ∂n_j/∂x_k = (δ_jk − 1/D − n_j·n_k/D)/σ of the normalised row n.
inline LayerNorm layer_norm(const Array<2>& x, const Array<1>& weight, const Array<1>& bias, double epsilon,
                            const Array<2>& dy) {
  const Index rows = x.extent(0), width = x.extent(1);
  const auto count = static_cast<double>(width);
  LayerNorm result{Expected<2>(x.shape()), Expected<2>(x.shape()), Expected<1>(Shape{width}),
                   Expected<1>(Shape{width})};
  Array<1> normal(Shape{width}), weight_terms(Shape{width}), bias_terms(Shape{width});
  for (Index i = 0; i < rows; ++i) {
    double mean = 0, variance = 0;
    for (Index j = 0; j < width; ++j) mean += x(i, j) / count;
    for (Index j = 0; j < width; ++j) variance += (x(i, j) - mean) * (x(i, j) - mean) / count;
    const double deviation = std::sqrt(variance + epsilon);
    for (Index j = 0; j < width; ++j) {
      normal(j) = (x(i, j) - mean) / deviation;
      result.y.values(i, j) = normal(j) * weight(j) + bias(j);
      result.dweight.values(j) += dy(i, j) * normal(j);
      result.dbias.values(j) += dy(i, j);
      result.y.magnitude = (std::max)(result.y.magnitude, std::abs(normal(j) * weight(j)) + std::abs(bias(j)));
      result.dweight.magnitude =
          (std::max)(result.dweight.magnitude, weight_terms(j) += std::abs(dy(i, j) * normal(j)));
      result.dbias.magnitude = (std::max)(result.dbias.magnitude, bias_terms(j) += std::abs(dy(i, j)));
    }
    for (Index k = 0; k < width; ++k)
      for (Index j = 0; j < width; ++j) {
        const double slope = (static_cast<double>(j == k) - 1 / count - normal(j) * normal(k) / count) / deviation;
        result.dx.values(i, k) += dy(i, j) * weight(j) * slope;
        result.dx.magnitude = (std::max)(result.dx.magnitude, std::abs(dy(i, j) * weight(j)) / deviation);
      }
  }
  return result;
}

/// exp(x_j) / Σ exp(x) of one row
inline Array<2> softmax(const Array<2>& x) {
  Array<2> y(x.shape());
  for (Index i = 0; i < x.extent(0); ++i) {
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (Index j = 0; j < x.extent(1); ++j) largest = (std::max)(largest, x(i, j));
    for (Index j = 0; j < x.extent(1); ++j) sum += std::exp(x(i, j) - largest);
    for (Index j = 0; j < x.extent(1); ++j) y(i, j) = std::exp(x(i, j) - largest) / sum;
  }
  return y;
}

/// dx_k = Σ_j dy_j ∂y_j/∂x_k, with ∂y_j/∂x_k = y_j(δ_jk − y_k), or δ_jk − y_k for the logarithm
inline Expected<2> softmax_backward(const Array<2>& x, const Array<2>& dy, bool logarithm) {
  const Array<2> y = softmax(x);
  Expected<2> dx(x.shape());
  for (Index i = 0; i < x.extent(0); ++i)
    for (Index k = 0; k < x.extent(1); ++k) {
      double magnitude = 0;
      for (Index j = 0; j < x.extent(1); ++j) {
        const double term = dy(i, j) * (logarithm ? 1 : y(i, j)) * (static_cast<double>(j == k) - y(i, k));
        dx.values(i, k) += term;
        magnitude += std::abs(term);
      }
      dx.magnitude = (std::max)(dx.magnitude, magnitude);
    }
  return dx;
}

struct CrossEntropy {
  double loss = 0, magnitude = 0;
  Expected<2> dlogits;
};

/// −Σ_v q_v log p_v summed over rows, q = (1 − ε)[v = target] + ε/V; rows of target `ignore` are left out
inline CrossEntropy cross_entropy(const Array<2>& logits, const Tensor<Id, 1>& targets, Id ignore, double smoothing) {
  const Index classes = logits.extent(1);
  CrossEntropy result{.dlogits = Expected<2>(logits.shape())};
  const Array<2> p = softmax(logits);
  for (Index i = 0; i < logits.extent(0); ++i) {
    if (targets(i) == ignore) continue;
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (Index v = 0; v < classes; ++v) largest = (std::max)(largest, logits(i, v));
    for (Index v = 0; v < classes; ++v) sum += std::exp(logits(i, v) - largest);
    for (Index v = 0; v < classes; ++v) {
      const double q = (v == targets(i) ? 1 - smoothing : 0) + smoothing / static_cast<double>(classes);
      const double term = -q * (logits(i, v) - largest - std::log(sum));
      result.loss += term;
      result.magnitude += std::abs(term) + q * std::abs(logits(i, v));
      result.dlogits.values(i, v) = p(i, v) - q;
    }
  }
  result.dlogits.magnitude = 1;
  return result;
}

/// softmax(scale·q·kᵀ)·v for every head, one weight after the other; what is not seen, or dropped, is not looked at,
/// but that a row with a weight of NaN is NaN.
struct Attention {
  Array<4> query, key, value;  // (B, N, H, E), (B, M, K, E), (B, M, K, E)
  double scale;
  std::function<bool(Index b, Index h, Index i, Index j)> sees = [](Index, Index, Index, Index) { return true; };
  std::function<double(Index b, Index h, Index i, Index j, double s)> bend = [](Index, Index, Index, Index, double s) {
    return s;
  };
  std::function<double(Index b, Index h, Index i, Index j, double s)> bend_slope = [](Index, Index, Index, Index,
                                                                                      double) { return 1.0; };
  std::function<void(Index b, Index h, Index i, Index j, double slope)> collect = [](Index, Index, Index, Index,
                                                                                     double) {};  // dL/d(bent score)
  std::function<double(Index b, Index h, Index i, Index j)> factor = [](Index, Index, Index, Index) {
    return 1.0;
  };  // dropout
  std::function<double(Index b, Index h, Index i, Index j)> weight_slope = [](Index, Index, Index, Index) {
    return 0.0;
  };  // dL/d(dropped weight) but by the output

  struct Forward {
    Expected<4> output;
    Array<4> weights;  // (B, H, N, M), before dropout
  };
  Forward forward() const {
    const Index batch = query.extent(0), queries = query.extent(1), heads = query.extent(2), width = query.extent(3),
                keys = key.extent(1);
    Forward result{Expected<4>(query.shape()), Array<4>(Shape{batch, heads, queries, keys})};
    for_rows([&](Index b, Index h, Index g, Index i) {
      double largest = -std::numeric_limits<double>::infinity(), sum = 0;
      Array<1> scores(Shape{keys});
      for (Index j = 0; j < keys; ++j) {
        scores(j) = bend(b, h, i, j, score(b, h, g, i, j));
        if (sees(b, h, i, j)) largest = (std::max)(largest, scores(j));
      }
      for (Index j = 0; j < keys; ++j) sum += sees(b, h, i, j) ? std::exp(scores(j) - largest) : 0;
      for (Index j = 0; j < keys; ++j) {
        if (!sees(b, h, i, j)) continue;
        const double weight = result.weights(b, h, i, j) = std::exp(scores(j) - largest) / sum;
        if (factor(b, h, i, j) == 0 && !std::isnan(weight)) continue;
        for (Index e = 0; e < width; ++e) {
          result.output.values(b, i, h, e) += weight * factor(b, h, i, j) * value(b, j, g, e);
          result.output.magnitude =
              (std::max)(result.output.magnitude, std::abs(factor(b, h, i, j) * value(b, j, g, e)));
        }
      }
    });
    result.output.magnitude *= 1 + spread();
    return result;
  }

  struct Backward {
    Expected<4> query, key, value;
  };
  Backward backward(const Array<4>& doutput) const {
    const Index width = query.extent(3), keys = key.extent(1);
    const Forward at = forward();
    Backward result{Expected<4>(query.shape()), Expected<4>(key.shape()), Expected<4>(value.shape())};
    Backward terms = result;  // sums of absolute values
    for_rows([&](Index b, Index h, Index g, Index i) {
      Array<1> slopes(Shape{keys});  // dL/d weight
      double mean = 0, magnitude = 0;
      for (Index j = 0; j < keys; ++j) {
        if (!sees(b, h, i, j)) continue;
        const double by_weight = factor(b, h, i, j) != 0 ? weight_slope(b, h, i, j) * factor(b, h, i, j) : 0;
        slopes(j) += by_weight;
        magnitude += std::abs(by_weight) * at.weights(b, h, i, j);
        for (Index e = 0; e < width && factor(b, h, i, j) != 0; ++e) {
          const double dout = doutput(b, i, h, e), weight = at.weights(b, h, i, j) * factor(b, h, i, j);
          slopes(j) += dout * value(b, j, g, e) * factor(b, h, i, j);
          magnitude += std::abs(dout * value(b, j, g, e) * factor(b, h, i, j)) * at.weights(b, h, i, j);
          result.value.values(b, j, g, e) += weight * dout;
          terms.value.values(b, j, g, e) += std::abs(weight * dout);
        }
        mean += at.weights(b, h, i, j) * slopes(j);
      }
      for (Index j = 0; j < keys; ++j) {
        if (!sees(b, h, i, j)) continue;
        const double weight = at.weights(b, h, i, j), bent = bend_slope(b, h, i, j, score(b, h, g, i, j)),
                     slope = weight * (slopes(j) - mean) * bent * scale;
        const double bound = weight * (std::abs(slopes(j)) + magnitude) * std::abs(scale);
        collect(b, h, i, j, weight * (slopes(j) - mean));
        for (Index e = 0; e < width; ++e) {
          result.query.values(b, i, h, e) += slope * key(b, j, g, e);
          result.key.values(b, j, g, e) += slope * query(b, i, h, e);
          terms.query.values(b, i, h, e) += bound * std::abs(key(b, j, g, e));
          terms.key.values(b, j, g, e) += bound * std::abs(query(b, i, h, e));
        }
      }
    });
    const auto take = [&](Expected<4>& to, Expected<4>& from) {
      from.measure();
      to.magnitude = from.magnitude * (1 + spread());
    };
    take(result.query, terms.query);
    take(result.key, terms.key);
    take(result.value, terms.value);
    return result;
  }

 private:
  double score(Index b, Index h, Index g, Index i, Index j) const {
    double sum = 0;
    for (Index e = 0; e < query.extent(3); ++e) sum += scale * query(b, i, h, e) * key(b, j, g, e);
    return sum;
  }
  void for_rows(auto&& f) const {
    const Index group = query.extent(2) / key.extent(2);
    for (Index b = 0; b < query.extent(0); ++b)
      for (Index h = 0; h < query.extent(2); ++h)
        for (Index i = 0; i < query.extent(1); ++i) f(b, h, h / group, i);
  }
  /// The largest Σ|scale·q·k|, and what it was bent by: a score's rounding error is this many epsilons, and so is its
  /// exponential's.
  double spread() const {
    double largest = 0;
    for_rows([&](Index b, Index h, Index g, Index i) {
      for (Index j = 0; j < key.extent(1); ++j) {
        double sum = 0;
        for (Index e = 0; e < query.extent(3); ++e) sum += std::abs(scale * query(b, i, h, e) * key(b, j, g, e));
        const double plain = score(b, h, g, i, j);
        largest = (std::max)(largest, sum + std::abs(bend(b, h, i, j, plain) - plain));
      }
    });
    return largest;
  }
};

}  // namespace eigenformer::test::oracle
