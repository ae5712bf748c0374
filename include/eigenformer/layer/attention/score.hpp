// What happens to the scores: each kind of scores gives the op a functor that is inlined into the attention kernel.
#pragma once

#include <cmath>

#include "eigenformer/layer/attention/config.hpp"
#include "eigenformer/op/attention.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

/// Nothing.
template <Real T = float>
struct PlainScores {
  using Config = EmptyConfig;

  explicit PlainScores(const Config&) {}
  static void visit(auto&&, auto&...) {}
  kernel::PlainScore bind(Context&, const AttentionCall<T>&) const { return {}; }
};

/// The slope of head h of H (Press, Smith, Lewis 2022): 2^(−8(h+1)/H) if H is a power of 2; else those of the next
/// smaller power of 2, then every other one of twice that.
inline double alibi_slope(Index h, Index heads) {
  ensure(heads > 0 && h >= 0 && h < heads, "alibi", "there is no head ", h, " of ", heads);
  Index power = 1;
  while (2 * power <= heads) power *= 2;
  const auto slope = [](Index number, Index of) {
    return std::exp2(-8 * static_cast<double>(number) / static_cast<double>(of));
  };
  return h < power ? slope(h + 1, power) : slope(2 * (h - power) + 1, 2 * power);
}

struct AlibiScoresConfig {
  Index heads = 0;  ///< H; 0: the attention's

  static void fields(auto&& f, auto&... c) { f("heads", c.heads...); }
  friend bool operator==(const AlibiScoresConfig&, const AlibiScoresConfig&) = default;
};

/// ALiBi: −slope·|distance|
template <Real T = float>
struct AlibiScores {
  using Config = AlibiScoresConfig;

  Fixed<Index> heads;

  explicit AlibiScores(const Config& config) : heads(config.heads) { require_range("alibi", "heads", config.heads, 1); }
  static void visit(auto&&, auto&...) {}
  kernel::AlibiScore<T> bind(Context& ctx, const AttentionCall<T>&) const {
    const View<T, 1> slopes = ctx.arena.allocate<T>(Shape{heads});
    for (Index h = 0; h < heads; ++h) slopes[h] = static_cast<T>(alibi_slope(h, heads));
    return {slopes};
  }
};

struct CappedScoresConfig {
  double cap = 0;  ///< must be given

  static void fields(auto&& f, auto&... c) { f("cap", c.cap...); }
  friend bool operator==(const CappedScoresConfig&, const CappedScoresConfig&) = default;
};

/// cap·tanh(s/cap) (Gemma Team 2024)
template <Real T = float>
struct CappedScores {
  using Config = CappedScoresConfig;

  Fixed<double> cap;

  explicit CappedScores(const Config& config) : cap(config.cap) {
    require_range("attention", "cap", config.cap, smallest_real);
  }
  static void visit(auto&&, auto&...) {}
  kernel::CappedScore<T> bind(Context&, const AttentionCall<T>&) const { return {static_cast<T>(cap)}; }
};

/// Learned biases of distances, from call.bias (T5)
template <Real T = float>
struct BiasedScores {
  using Config = EmptyConfig;
  static constexpr PositionInputs uses{.bias = true};

  explicit BiasedScores(const Config&) {}
  static void visit(auto&&, auto&...) {}
  op::DistanceScore<T> bind(Context&, const AttentionCall<T>& call) const { return {call.bias}; }
};

}  // namespace eigenformer
