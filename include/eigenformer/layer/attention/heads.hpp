// What happens to the queries and keys of each head before they meet.
#pragma once

#include "eigenformer/core/visit.hpp"
#include "eigenformer/layer/attention/config.hpp"
#include "eigenformer/layer/norm/rms_norm.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

/// Nothing.
template <Real T = float>
struct PlainHeads {
  using Config = EmptyConfig;

  explicit PlainHeads(const Config&) {}
  static void visit(auto&&, auto&...) {}

  /// (B, N, H, E) → (B, N, H, E)
  ConstView<T, 4> queries(Context&, ConstView<T, 4> q, const AttentionCall<T>&) const { return q; }
  ConstView<T, 4> keys(Context&, ConstView<T, 4> k, const AttentionCall<T>&) const { return k; }
};

/// Rotary positions (Su et al. 2021), from call.rotary; never on values.
template <Real T = float>
struct RotaryHeads {
  using Config = EmptyConfig;
  static constexpr PositionInputs uses{.rotary = true};

  explicit RotaryHeads(const Config&) {}
  static void visit(auto&&, auto&...) {}

  ConstView<T, 4> queries(Context& ctx, ConstView<T, 4> q, const AttentionCall<T>& call) const {
    return op::rotary<T>(ctx, q, call.rotary);
  }
  ConstView<T, 4> keys(Context& ctx, ConstView<T, 4> k, const AttentionCall<T>& call) const {
    return op::rotary<T>(ctx, k, call.rotary);
  }
};

template <class NormConfig, class InnerConfig>
struct QkNormConfig {
  Index head_width = 0;  ///< E; 0: the attention's
  NormConfig norm{};     ///< of both norms
  InnerConfig inner{};

  /// With everything filled in; throws if a setting is invalid.
  QkNormConfig completed() const {
    QkNormConfig config = *this;
    config.norm = inherit("qk_norm", norm, {.width = head_width});
    config.inner = inherit("qk_norm", inner, {.head_width = head_width});
    return config;
  }

  static void fields(auto&& f, auto&... c) {
    f("head_width", c.head_width...);
    f("norm", c.norm...);
    f("inner", c.inner...);
  }
  friend bool operator==(const QkNormConfig&, const QkNormConfig&) = default;
};

/// A norm of every head's queries and keys (Henry et al. 2020), then Inner.
template <Real T = float, class Norm = RmsNorm<T>, class Inner = RotaryHeads<T>>
struct QkNorm {
  using Config = QkNormConfig<typename Norm::Config, typename Inner::Config>;
  static constexpr PositionInputs uses = inputs_used<Inner>();

  Norm query_norm;  // (E)
  Norm key_norm;    // (E)
  Inner inner;

  explicit QkNorm(const Config& config)
      : query_norm(config.completed().norm), key_norm(config.completed().norm), inner(config.completed().inner) {}

  static void visit(auto&& f, auto&... m) {
    f("query_norm", m.query_norm...);
    f("key_norm", m.key_norm...);
    f("inner", m.inner...);
  }

  ConstView<T, 4> queries(Context& ctx, ConstView<T, 4> q, const AttentionCall<T>& call) const {
    return inner.queries(ctx, normalized(ctx, query_norm, q), call);
  }
  ConstView<T, 4> keys(Context& ctx, ConstView<T, 4> k, const AttentionCall<T>& call) const {
    return inner.keys(ctx, normalized(ctx, key_norm, k), call);
  }

 private:
  static ConstView<T, 4> normalized(Context& ctx, const Norm& norm, ConstView<T, 4> x) {
    return norm(ctx, x.reshape(Shape{x.extent(0), x.extent(1) * x.extent(2), x.extent(3)})).reshape(x.shape());
  }
};

}  // namespace eigenformer
