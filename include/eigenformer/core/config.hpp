// Configs nest as the parts do: a block's config contains those of its attention, network and norms, a model's that of
// its block. What is the same for many parts is said once, further out, and handed down. Every config is an aggregate
// that lists its fields once, and has, where more than copying is to do, a completed():
//
//   static void fields(auto&& f, auto&... c) { f("width", c.width...); f("bias", c.bias...); }
#pragma once

#include <optional>
#include <string_view>

#include "eigenformer/core/error.hpp"
#include "eigenformer/core/scalar.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

template <class Config>
concept HasFields = requires(Config& config) {
  Config::fields([](std::string_view, auto&...) {}, config);
};

/// Of a part without settings.
struct EmptyConfig {
  static void fields(auto&&, auto&...) {}
  friend bool operator==(const EmptyConfig&, const EmptyConfig&) = default;
};

/// What a block or a model says once for all of its parts that have such a field.
struct SharedSettings {
  std::optional<Index> width{}, hidden{}, heads{}, head_width{}, max_positions{};
  std::optional<double> dropout{};
};

namespace detail {
inline Index value_of(Index given) { return given; }
inline Index value_of(const std::optional<Index>& given) { return *given; }

/// What the whole says, or not (0), is what its part has.
inline void update_size(std::string_view place, std::string_view field, Index& whole, Index part) {
  ensure(whole == 0 || whole == part, place, "a part says ", field, " ", part, ", but the whole ", whole);
  whole = part;
}
}  // namespace detail

/// The config of a part, complete, with what it does not say itself (none, or 0) from `shared`. Widths that it says
/// must be those of the whole.
template <class Config>
Config inherit(std::string_view place, Config config, const SharedSettings& shared) {
  const auto take = [](auto& own, const auto& from) {
    if (!own && from) own = *from;
  };
  const auto agree = [&](std::string_view field, auto& own, const auto& from) {
    take(own, from);
    if (from && own != *from) fail(place, "a part says ", field, " ", detail::value_of(own), ", but the whole ", *from);
  };
  if constexpr (requires { config.width; }) agree("width", config.width, shared.width);
  if constexpr (requires { config.head_width; }) agree("head_width", config.head_width, shared.head_width);
  if constexpr (requires { config.hidden; }) take(config.hidden, shared.hidden);
  if constexpr (requires { config.heads; }) take(config.heads, shared.heads);
  if constexpr (requires { config.max_positions; }) take(config.max_positions, shared.max_positions);
  if constexpr (requires { config.dropout.has_value(); }) take(config.dropout, shared.dropout);
  if constexpr (requires { config.completed(); }) return config.completed();
  else return config;
}

}  // namespace eigenformer
