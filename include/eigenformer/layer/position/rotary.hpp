// Rotary positions (RoFormer: Su et al. 2021), for RotaryHeads; frequencies base^(−2i/R) for pairs i of the R rotated
// elements, and the ways to stretch them beyond the length of training.
#pragma once

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "eigenformer/core/settings.hpp"
#include "eigenformer/layer/position/none.hpp"
#include "eigenformer/op/rotary.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

/// All frequencies divided by `factor` (Chen et al. 2023).
struct LinearScaling {
  static constexpr std::string_view name = "linear";

  double factor = 1;

  static void fields(auto&& f, auto&... c) { f("factor", c.factor...); }
  friend bool operator==(const LinearScaling&, const LinearScaling&) = default;
};

/// base · factor^(R/(R − 2)): the fastest stay, the slowest are divided by `factor` (bloc97 2023).
struct NtkScaling {
  static constexpr std::string_view name = "ntk";

  double factor = 1;

  static void fields(auto&& f, auto&... c) { f("factor", c.factor...); }
  friend bool operator==(const NtkScaling&, const NtkScaling&) = default;
};

/// NTK-aware only as far as the sequence is longer than that of training: base · (factor·N/original − (factor −
/// 1))^(R/(R − 2)). The base depends on the length, so keys of an earlier, shorter call must not be kept.
struct DynamicNtkScaling {
  static constexpr std::string_view name = "dynamic_ntk";

  double factor = 1;
  Index original = 2048;  ///< tokens of training

  static void fields(auto&& f, auto&... c) {
    f("factor", c.factor...);
    f("original", c.original...);
  }
  friend bool operator==(const DynamicNtkScaling&, const DynamicNtkScaling&) = default;
};

/// YaRN (Peng et al. 2023): frequencies that turn less than `slow` times in `original` tokens are divided by `factor`,
/// those that turn more than `fast` times stay, with a ramp between; cosine and sine are multiplied by the attention
/// factor.
struct YarnScaling {
  static constexpr std::string_view name = "yarn";

  double factor = 1;
  Index original = 4096;
  double fast = 32, slow = 1;
  std::optional<double> attention_factor{};  ///< none: 0.1·ln(factor) + 1
  bool truncated = true;                     ///< the ramp begins and ends at whole pairs

  static void fields(auto&& f, auto&... c) {
    f("factor", c.factor...);
    f("original", c.original...);
    f("fast", c.fast...);
    f("slow", c.slow...);
    f("attention_factor", c.attention_factor...);
    f("truncated", c.truncated...);
  }
  friend bool operator==(const YarnScaling&, const YarnScaling&) = default;
};

/// LongRoPE (Ding et al. 2024): every frequency has its own divisor, one list up to `original` tokens, another beyond.
struct LongScaling {
  static constexpr std::string_view name = "long";

  std::vector<double> short_factors, long_factors;  ///< R/2 each
  Index original = 4096;
  Index max_positions = 131072;              ///< tokens after stretching
  std::optional<double> attention_factor{};  ///< none: √(1 + ln(max_positions/original)/ln(original))

  static void fields(auto&& f, auto&... c) {
    f("short_factors", c.short_factors...);
    f("long_factors", c.long_factors...);
    f("original", c.original...);
    f("max_positions", c.max_positions...);
    f("attention_factor", c.attention_factor...);
  }
  friend bool operator==(const LongScaling&, const LongScaling&) = default;
};

/// Every frequency has a divisor of its own.
struct FactorScaling {
  static constexpr std::string_view name = "factors";

  std::vector<double> factors;  ///< R/2

  static void fields(auto&& f, auto&... c) { f("factors", c.factors...); }
  friend bool operator==(const FactorScaling&, const FactorScaling&) = default;
};

/// LLaMA 3 (Dubey et al. 2024): wavelengths beyond original/low are divided by `factor`, those below original/high
/// stay.
struct Llama3Scaling {
  static constexpr std::string_view name = "llama3";

  double factor = 8, low = 1, high = 4;
  Index original = 8192;

  static void fields(auto&& f, auto&... c) {
    f("factor", c.factor...);
    f("low", c.low...);
    f("high", c.high...);
    f("original", c.original...);
  }
  friend bool operator==(const Llama3Scaling&, const Llama3Scaling&) = default;
};

struct RotaryConfig {
  Index head_width = 0;  ///< E; 0: the model's
  Index rotated = 0;     ///< R, even; 0: E
  double base = 10000;   ///< θ
  RotaryLayout layout = RotaryLayout::halves;
  std::variant<std::monostate, LinearScaling, NtkScaling, DynamicNtkScaling, YarnScaling, LongScaling, FactorScaling,
               Llama3Scaling>
      scaling{};

  /// With everything filled in.
  RotaryConfig completed() const {
    RotaryConfig config = *this;
    if (rotated == 0) config.rotated = head_width;
    return config;
  }

  static void fields(auto&& f, auto&... c) {
    f("head_width", c.head_width...);
    f("rotated", c.rotated...);
    f("base", c.base...);
    f("layout", c.layout...);
    f("scaling", c.scaling...);
  }
  friend bool operator==(const RotaryConfig&, const RotaryConfig&) = default;
};

/// The frequencies of R/2 pairs in radians per token, and what cosine and sine are multiplied by, for sequences of
/// `tokens`.
struct RotaryFrequencies {
  std::vector<double> values;
  double attention_factor = 1;

  RotaryFrequencies(const RotaryConfig& config, Index tokens)
      : rotated_(config.rotated > 0 ? config.rotated : config.head_width), base_(config.base) {
    require_range("rotary", "head_width", config.head_width, 1);
    require_range("rotary", "rotated", config.rotated, 0, config.head_width);
    ensure(rotated_ % 2 == 0, "rotary", "cannot rotate ", rotated_, " of ", config.head_width, " elements");
    require_range("rotary", "base", base_, smallest_real);
    std::visit([&](const auto& scaling) { set(scaling, tokens); }, config.scaling);
  }

 private:
  static void check_factor(double factor, double least) { require_range("rotary", "factor", factor, least); }
  static void check_original(Index original) { require_range("rotary", "original", original, 1); }
  static void check_attention_factor(const std::optional<double>& factor) {
    if (factor) require_range("rotary", "attention_factor", *factor, smallest_real);
  }

  void plain(double base) {
    reserve_memory("rotary", values, rotated_ / 2);
    for (Index i = 0; i < rotated_; i += 2)
      values.push_back(std::pow(base, -static_cast<double>(i) / static_cast<double>(rotated_)));
  }
  double stretched(double by) const {
    return base_ * std::pow(by, static_cast<double>(rotated_) / static_cast<double>(rotated_ - 2));
  }

  void check_factors(const std::vector<double>& factors) const {
    ensure(factors.size() == values.size(), "rotary", factors.size(), " factors do not fit ", values.size(), " pairs");
    for (const double factor : factors) check_factor(factor, smallest_real);
  }
  void divide(const std::vector<double>& factors) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] /= factors[i];
  }

  void set(std::monostate, Index) { plain(base_); }
  void set(const LinearScaling& by, Index) {
    check_factor(by.factor, smallest_real);
    plain(base_);
    for (double& value : values) value /= by.factor;
  }
  void set(const NtkScaling& by, Index) {
    check_factor(by.factor, smallest_real);
    ensure(rotated_ > 2, "rotary", "cannot stretch ", rotated_, " elements by ", by.factor);
    plain(stretched(by.factor));
  }
  void set(const DynamicNtkScaling& by, Index tokens) {
    check_factor(by.factor, 1);
    check_original(by.original);
    ensure(rotated_ > 2, "rotary", "cannot stretch ", rotated_, " elements by ", by.factor);
    const double length = static_cast<double>((std::max)(tokens, by.original)) / static_cast<double>(by.original);
    plain(stretched(by.factor * length - (by.factor - 1)));
  }
  void set(const YarnScaling& by, Index) {
    check_factor(by.factor, 1);
    check_original(by.original);
    check_attention_factor(by.attention_factor);
    require_range("rotary", "slow", by.slow, smallest_real);
    require_range("rotary", "fast", by.fast, smallest_real);
    ensure(by.fast > by.slow && base_ > 1, "rotary", "cannot stretch between ", by.slow, " and ", by.fast,
           " turns of base ", base_);
    plain(base_);
    // The pair that turns so many times in the original length.
    const auto pair = [&](double turns) {
      return static_cast<double>(rotated_) *
             std::log(static_cast<double>(by.original) / (turns * 2 * std::numbers::pi)) / (2 * std::log(base_));
    };
    double first = pair(by.fast), last = pair(by.slow);
    if (by.truncated) first = std::floor(first), last = std::ceil(last);
    first = (std::max)(first, 0.0);
    last = (std::min)(last, static_cast<double>(rotated_ - 1));
    if (first == last) last += 0.001;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double ramp = std::clamp((static_cast<double>(i) - first) / (last - first), 0.0, 1.0);
      values[i] = values[i] / by.factor * ramp + values[i] * (1 - ramp);
    }
    attention_factor = by.attention_factor.value_or(0.1 * std::log(by.factor) + 1);
  }
  void set(const LongScaling& by, Index tokens) {
    plain(base_);
    require_range("rotary", "original", by.original, 2);
    require_range("rotary", "max_positions", by.max_positions, 1);
    check_attention_factor(by.attention_factor);
    for (const auto* list : {&by.short_factors, &by.long_factors}) check_factors(*list);
    divide(tokens > by.original ? by.long_factors : by.short_factors);
    const double stretch = static_cast<double>(by.max_positions) / static_cast<double>(by.original);
    attention_factor = by.attention_factor.value_or(
        stretch <= 1 ? 1 : std::sqrt(1 + std::log(stretch) / std::log(static_cast<double>(by.original))));
  }
  void set(const FactorScaling& by, Index) {
    plain(base_);
    check_factors(by.factors);
    divide(by.factors);
  }
  void set(const Llama3Scaling& by, Index) {
    check_factor(by.factor, smallest_real);
    check_original(by.original);
    require_range("rotary", "low", by.low, smallest_real);
    require_range("rotary", "high", by.high, smallest_real);
    ensure(by.high > by.low, "rotary", "cannot stretch between ", by.low, " and ", by.high, " turns");
    plain(base_);
    for (double& value : values) {
      const double turns = static_cast<double>(by.original) * value / (2 * std::numbers::pi),
                   ramp = std::clamp((turns - by.low) / (by.high - by.low), 0.0, 1.0);
      value = (1 - ramp) * value / by.factor + ramp * value;
    }
  }

  Index rotated_;
  double base_;
};

template <Real T = float>
struct Rotary : NoPosition<T> {
  using Config = RotaryConfig;
  static constexpr PositionInputs gives{.rotary = true};

  Fixed<Config> config;
  Fixed<RotaryFrequencies>
      frequencies;  // of sequences of no length: what they are, unless the scaling looks at the length

  explicit Rotary(const Config& given) : config(given.completed()), frequencies(RotaryFrequencies(config, 0)) {}

  void attend(Context& ctx, Index batch, Index tokens, const Positions& positions, AttentionCall<T>& call) const {
    positions.validate("rotary", batch, tokens);
    if (!std::holds_alternative<DynamicNtkScaling>(config->scaling) &&
        !std::holds_alternative<LongScaling>(config->scaling)) {
      call.rotary = op::rotary_table<T>(ctx, frequencies->values, frequencies->attention_factor, config->layout, batch,
                                        tokens, positions);
      return;
    }
    // Every sequence has its own length, padding not counted, and so its own frequencies.
    call.mask.check_lengths("rotary", batch, tokens, tokens);
    ensure(!call.caches, "rotary", "frequencies that depend on the length do not go with keys from a cache");
    const Shape<3> shape{batch, tokens, static_cast<Index>(frequencies->values.size())};
    const auto cosine = ctx.arena.allocate<T>(shape), sine = ctx.arena.allocate<T>(shape);
    for (Index b = 0; b < batch; ++b) {
      Index length = 0;
      for (Index n = 0; n < (call.mask.key_lengths ? call.mask.key_lengths[b] : tokens); ++n)
        length = (std::max)(length, positions.at(b, n) + 1);
      const RotaryFrequencies own(config, length);
      const Positions its{.first = positions.first,
                          .given = positions.given ? positions.given.slice(0, b, 1) : ConstView<Index, 2>()};
      kernel::rotary_table<T>(ctx.threads, own.values, own.attention_factor, its, cosine.slice(0, b, 1),
                              sine.slice(0, b, 1));
    }
    call.rotary = {cosine, sine, config->layout};
  }
};

}  // namespace eigenformer
