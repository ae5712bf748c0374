// The config of the wrappers of the residual stream (PostNorm, PreNorm, …).
#pragma once

#include <optional>

#include "eigenformer/core/config.hpp"
#include "eigenformer/core/settings.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

template <class NormConfig>
struct ResidualConfig {
  std::optional<Index> width{};     ///< D; none: the block's, or 512
  std::optional<double> dropout{};  ///< on the sublayer's output; none: the block's, or 0
  NormConfig norm{};                ///< also of the norm at the end of a stack

  /// With everything filled in; throws if a setting is invalid.
  ResidualConfig completed() const { return completed(*this); }

  template <class Config>
  static Config completed(Config config) {
    config.width = config.width.value_or(512);
    config.dropout = config.dropout.value_or(0);
    require_range("residual", "width", *config.width, 1);
    require_range("residual", "dropout", *config.dropout, 0, 1);
    config.norm = inherit("residual", config.norm, {.width = config.width});
    return config;
  }

  static void fields(auto&& f, auto&... c) {
    f("width", c.width...);
    f("dropout", c.dropout...);
    f("norm", c.norm...);
  }
  friend bool operator==(const ResidualConfig&, const ResidualConfig&) = default;
};

}  // namespace eigenformer
