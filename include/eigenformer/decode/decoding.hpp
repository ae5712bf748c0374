// What generation and beam search begin with.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

#include "eigenformer/core/context.hpp"
#include "eigenformer/core/format.hpp"
#include "eigenformer/decode/reader.hpp"
#include "eigenformer/decode/rules.hpp"

namespace eigenformer::inline EIGENFORMER_ABI::detail {

/// Memory for so many tokens a text is provided at once; beyond, it grows as it is needed.
inline constexpr Index expected_tokens = 1024;

/// Throws if the model has not got positions for a text and so many tokens more: the last one needs none.
template <class Model>
void check_room(std::string_view place, const Model& model, std::size_t text, std::size_t tokens, Index more) {
  const auto check_position = [&](const auto& position) {
    if constexpr (requires { position.max_positions(); })
      ensure(more - 1 <= position.max_positions() - static_cast<Index>(tokens), place, "text ", text, ": ", tokens,
             " tokens and ", more, " more are too many for the model's ", position.max_positions(), " positions");
  };
  if constexpr (requires { model.target_position; }) check_position(model.target_position);
  else if constexpr (requires { model.position; }) check_position(model.position);
}

/// The model's state for `these`, with keys and values in a format. A model need not know of formats.
template <class Model>
auto start(std::string_view place, const Model& model, Format cache, auto&&... these) {
  if constexpr (requires { model.start(these..., cache); }) {
    return model.start(these..., cache);
  } else {
    ensure(cache == Format::scalar, place, "this model has no cache in ", format_name(cache));
    return model.start(these...);
  }
}

/// Settings that have been checked, and the texts that go on: bos, if there is one, and the prompt.
struct Decoding {
  RuleScope scope;
  std::vector<std::vector<Id>> texts;

  /// `place` is what an Error names: generate or beam_search.
  template <class Model, DecodingConfig Config>
  Decoding(std::string_view place, const Context& ctx, const Model& model, const Config& config,
           const std::vector<std::vector<Id>>& prompts)
      : scope(config), texts(prompts.size()) {
    ensure(!ctx.tape && !ctx.random, place, "decoding is neither recorded nor with dropout");
    scope.validate(prompts.size());
    config.validate(prompts.size());
    RuleSet rules(scope);  // its parts check their settings
    Reader reader(config.chunk);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      ensure(scope.bos || !prompts[i].empty(), "decode", "prompt ", i, " is empty, and there is no bos token");
      texts[i].reserve(prompts[i].size() + 1 + expected());
      if (scope.bos) texts[i].push_back(*scope.bos);
      texts[i].insert(texts[i].end(), prompts[i].begin(), prompts[i].end());
    }
    for (std::size_t i = 0; !idle() && i < texts.size(); ++i)
      check_room("decode", model, i, texts[i].size(), scope.max_tokens);
  }

  /// For sources (B, M) of an encoder–decoder.
  template <class Model, DecodingConfig Config>
  Decoding(std::string_view place, const Context& ctx, const Model& model, const Config& config,
           ConstView<Id, 2> source)
      : Decoding(place, ctx, model, with_bos(place, config), std::vector<std::vector<Id>>(count_of(place, source))) {}

  /// Whether there is nothing to do.
  bool idle() const { return texts.empty() || scope.max_tokens == 0; }

  /// Generated tokens that each text is given memory for.
  std::size_t expected() const { return static_cast<std::size_t>((std::min)(scope.max_tokens, expected_tokens)); }

  /// Gives the state memory for the texts and what is to come.
  template <class State>
  void reserve(State& state) const {
    std::size_t longest = 0;
    for (const auto& text : texts) longest = (std::max)(longest, text.size());
    state.reserve(static_cast<Index>(longest + expected()));
  }

 private:
  template <class Config>
  static const Config& with_bos(std::string_view place, const Config& config) {
    ensure(config.bos.has_value(), place, "an encoder–decoder needs a bos token");
    return config;
  }
  static std::size_t count_of(std::string_view place, ConstView<Id, 2> source) {
    ensure(source.given(), place, "no source is given");
    return static_cast<std::size_t>(source.extent(0));
  }
};

}  // namespace eigenformer::detail
