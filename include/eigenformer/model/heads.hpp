// What stands on top of an encoder: classification, and masked language modelling.
#pragma once

#include "eigenformer/core/settings.hpp"
#include "eigenformer/core/visit.hpp"
#include "eigenformer/layer/embedding.hpp"
#include "eigenformer/layer/linear.hpp"
#include "eigenformer/layer/norm/layer_norm.hpp"
#include "eigenformer/model/ends.hpp"
#include "eigenformer/op/activation.hpp"
#include "eigenformer/op/dropout.hpp"
#include "eigenformer/op/linear.hpp"
#include "eigenformer/op/pool.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

/// Which vector stands for a sequence.
enum class Pooling { first, mean };

/// Classes of a whole sequence: tanh(pooled·Wᵀ + b)·Cᵀ + c (Devlin et al. 2019)
template <Real T = float>
struct ClassificationHead {
  Linear<T> dense;   // (D, D)
  Linear<T> output;  // (classes, D)
  Pooling pooling;
  double dropout;

  ClassificationHead(Index width, Index classes, Pooling by = Pooling::first, double dropped = 0)
      : dense({width, width}), output({width, classes}), pooling(by), dropout(dropped) {
    require_range("classification", "dropout", dropout, 0, 1);
  }

  static void visit(auto&& f, auto&... m) {
    f("dense", m.dense...);
    f("output", m.output...);
  }

  /// hidden states (B, N, D), lengths (B) or null → logits (B, 1, classes)
  ConstView<T, 3> operator()(Context& ctx, ConstView<T, 3> hidden, ConstView<Index, 1> lengths = {}) const {
    ensure(pooling == Pooling::mean || hidden.extent(1) > 0, "classification", "there is no first token in ",
           hidden.shape());
    const auto pooled = pooling == Pooling::first ? hidden.slice(1, 0, 1) : op::mean_pool<T>(ctx, hidden, lengths);
    const auto bent = op::activated_linear<Tanh>(ctx, op::dropout(ctx, pooled, dropout), dense.weight, dense.bias);
    return output(ctx, op::dropout(ctx, bent, dropout));
  }
};

/// The head of masked language models: gelu(x·Wᵀ + b), a norm, then the tied embedding and a bias.
template <Real T = float>
struct MaskedLanguageHead {
  Linear<T> dense;    // (D, D)
  LayerNorm<T> norm;  // (D)
  Tensor<T, 1> bias;  // (V)

  MaskedLanguageHead(Index width, Index vocabulary, double epsilon = 1e-12)
      : dense({width, width}), norm({.width = width, .epsilon = epsilon}) {
    require_range("masked_language", "vocabulary", vocabulary, 1);
    bias = Tensor<T, 1>(Shape{vocabulary});
  }

  static void visit(auto&& f, auto&... m) {
    f("dense", m.dense...);
    f("norm", m.norm...);
    f(Leaf{"bias", Init::zeros}, m.bias...);
  }

  /// hidden states (B, N, D) and the model's embedding (V, D) → logits (B, N, V)
  ConstView<T, 3> operator()(Context& ctx, ConstView<T, 3> hidden, const Embedding<T>& embedding) const {
    return detail::token_logits(ctx, norm(ctx, op::activated_linear<Gelu>(ctx, hidden, dense.weight, dense.bias)),
                                embedding.weight, bias);
  }
};

}  // namespace eigenformer
