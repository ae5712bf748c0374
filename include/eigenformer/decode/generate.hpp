// Text from a model, one token after another: the most probable, or drawn. Decoder-only models go on from prompts,
// encoder–decoders say what belongs to a source.
#pragma once

#include <algorithm>
#include <cstddef>
#include <exception>
#include <functional>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "eigenformer/core/context.hpp"
#include "eigenformer/decode/decoding.hpp"
#include "eigenformer/decode/reader.hpp"
#include "eigenformer/decode/rules.hpp"
#include "eigenformer/decode/sampler.hpp"
#include "eigenformer/decode/sequences.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

struct GenerateConfig {
  Index max_tokens = 100;  ///< at most so many per sequence, an eos token included; learned positions must reach so far
  Index min_tokens = 0;    ///< at least so many before eos
  std::vector<Id> eos{};   ///< any of them ends a sequence
  std::optional<Id> bos{};                  ///< comes before every prompt; encoder–decoders need it
  std::vector<std::vector<Id>> stops{};     ///< sequences of tokens that end a sequence
  std::vector<std::vector<Id>> prefixes{};  ///< what each sequence is made to begin with; counts as generated
  std::optional<Sampling> sampling{};       ///< none: the most probable token, of equals the lowest id
  TokenRules rules{};
  bool log_probabilities = false;                            ///< wanted in the results
  std::function<bool(Index sequence, Id token)> on_token{};  ///< see generate()
  Index first_sequence = 0;  ///< the number of the first sequence, for drawing: prompt i alone, with this
                             ///< number i, gives the text that it gives among others
  Index chunk = 512;         ///< prompts are read by so many tokens a pass: bounds the memory

  /// Throws if a setting that only generate() has is invalid.
  void validate(std::size_t sequences) const {
    require_range("generate", "first_sequence", first_sequence, 0, largest_index - static_cast<Index>(sequences));
    for (const auto& stop : stops) {
      ensure(!stop.empty(), "generate", "an empty stop sequence");
      for (const Id id : stop) ensure(id >= 0, "generate", "there is no token ", id, " to stop at");
    }
    const detail::Sampler<float> sampler(detail::RuleScope(*this), sampling, false);  // its parts check their settings
  }
};

/// Why a sequence ended.
enum class Ending { length, eos, stop_sequence, callback, failed };

struct Generated {
  std::vector<Id> tokens;                 ///< without prompt, eos token and stop sequence
  std::vector<double> log_probabilities;  ///< of the tokens, and of the eos token if there was one; under the model as
                                          ///< it is, before rules and filters
  Ending ending = Ending::length;
  std::string failure{};  ///< why it failed, if it did; the tokens are those before
};

namespace detail {

/// One sequence's tokens as they come: ends, stop sequences, and what the callback may see.
class Collector {
 public:
  Collector(const GenerateConfig& config, Index sequence, Generated& result)
      : config_(config), sequence_(sequence), result_(result) {
    const auto expected = static_cast<std::size_t>((std::min)(config.max_tokens, expected_tokens));
    result.tokens.reserve(expected);
    if (config.log_probabilities) result.log_probabilities.reserve(expected);
  }

  /// Whether the sequence goes on.
  bool add(const Choice& choice) {
    if (config_.log_probabilities) result_.log_probabilities.push_back(choice.log_probability);
    if (std::find(config_.eos.begin(), config_.eos.end(), choice.token) != config_.eos.end())
      return finish(Ending::eos);
    auto& tokens = result_.tokens;
    tokens.push_back(choice.token);
    std::size_t stop = 0, held = 0;  // the longest end of the tokens that is a stop sequence, or may become one
    for (const auto& each : config_.stops) {
      if (each.size() <= tokens.size() && matches(each, each.size())) stop = (std::max)(stop, each.size());
      for (std::size_t n = (std::min)(each.size() - 1, tokens.size()); n > held; --n)
        if (matches(each, n)) held = n;
    }
    if (stop > 0 && tokens.size() - stop >= static_cast<std::size_t>(config_.min_tokens)) {
      cut(tokens.size() - stop);
      return finish(Ending::stop_sequence);
    }
    if (!show(tokens.size() - held)) return false;
    return static_cast<Index>(tokens.size()) < config_.max_tokens || finish(Ending::length);
  }
  void fail(std::string reason) {
    result_.failure = std::move(reason);
    finish(Ending::failed);
  }

 private:
  /// Whether the tokens end with the first n of a stop sequence.
  bool matches(const std::vector<Id>& stop, std::size_t n) const {
    return std::equal(stop.begin(), stop.begin() + static_cast<Index>(n), result_.tokens.end() - static_cast<Index>(n));
  }
  void cut(std::size_t count) {
    result_.tokens.resize(count);
    if (config_.log_probabilities) result_.log_probabilities.resize(count);
  }
  bool finish(Ending ending) {
    result_.ending = ending;
    show(result_.tokens.size());
    return false;
  }
  /// Shows the callback the first `count` tokens, as far as it has not seen them.
  bool show(std::size_t count) {
    while (config_.on_token && shown_ < count) {
      if (config_.on_token(sequence_, result_.tokens[shown_++])) continue;
      cut(shown_);
      result_.ending = Ending::callback;
      result_.failure.clear();
      return false;
    }
    return true;
  }

  const GenerateConfig& config_;
  Index sequence_;
  Generated& result_;
  std::size_t shown_ = 0;
};

/// The loop, for either kind of model, from a new state.
template <class Model>
std::vector<Generated> generate_from(Context& ctx, const Model& model, typename Model::State state, Decoding& decoding,
                                     const GenerateConfig& config) {
  using T = typename Model::T;
  auto& [scope, texts] = decoding;
  std::vector<Generated> results(texts.size());
  std::vector<Collector> collectors;
  for (std::size_t i = 0; i < texts.size(); ++i) collectors.emplace_back(config, static_cast<Index>(i), results[i]);
  std::vector<Sampler<T>> samplers(static_cast<std::size_t>(ctx.threads.count()),
                                   Sampler<T>(scope, config.sampling, config.log_probabilities));
  Reader reader(config.chunk);
  decoding.reserve(state);

  std::vector<std::size_t> live(texts.size());  // what the sequences of the state are
  std::iota(live.begin(), live.end(), std::size_t{0});
  std::vector<Index> going;
  std::vector<Choice> choices(texts.size());
  std::vector<std::string> failures(texts.size());  // why there is no choice
  const auto text = [&](Index i) -> std::vector<Id>& { return decoding.texts[live[static_cast<std::size_t>(i)]]; };
  for (Index step = 0; !live.empty(); ++step) {  // every live sequence has generated so many tokens
    const auto memory = ctx.scratch();
    ConstView<T, 2> logits;  // (live, V)
    try {
      logits = reader(ctx, model, state, text);
    } catch (const std::exception& error) {
      if (step == 0) throw;
      for (const std::size_t i : live) collectors[i].fail(error.what());
      break;
    }
    if (step == 0) scope.check_vocabulary(logits.width());
    const auto count = static_cast<Index>(live.size());
    for_rows(ctx.threads, config.rules, count, logits.width(), [&](Index i, int slot) {
      const DecodeStep at{text(i), step, config.first_sequence + static_cast<Index>(live[static_cast<std::size_t>(i)])};
      try {
        choices[static_cast<std::size_t>(i)] = samplers[static_cast<std::size_t>(slot)](
            at, std::span(logits.row(i), static_cast<std::size_t>(logits.width())));
      } catch (const SequenceError& error) {
        failures[static_cast<std::size_t>(i)] = error.what();
      }
    });
    going.clear();
    for (Index i = 0; i < count; ++i) {
      if (std::string& failure = failures[static_cast<std::size_t>(i)]; !failure.empty()) {
        collectors[live[static_cast<std::size_t>(i)]].fail(std::exchange(failure, {}));
        continue;
      }
      const Choice& choice = choices[static_cast<std::size_t>(i)];
      text(i).push_back(choice.token);
      if (collectors[live[static_cast<std::size_t>(i)]].add(choice)) going.push_back(i);
    }
    if (static_cast<Index>(going.size()) == count) continue;
    for (std::size_t i = 0; i < going.size(); ++i) live[i] = live[static_cast<std::size_t>(going[i])];
    live.resize(going.size());
    if (!live.empty()) state.select(going);
  }
  return results;
}

}  // namespace detail

/// What belongs to each source (B, M) of a length (B; null: all M), from an encoder–decoder; otherwise as below.
template <class Model>
std::vector<Generated> generate(Context& ctx, const Model& model, ConstView<Id, 2> source, ConstView<Index, 1> lengths,
                                const GenerateConfig& config = {}) {
  detail::Decoding decoding("generate", ctx, model, config, source.extent(0));
  if (decoding.idle()) return std::vector<Generated>(decoding.texts.size());
  const auto memory = ctx.scratch();
  return detail::generate_from(ctx, model, model.start(ctx, source, lengths), decoding, config);
}

/// What follows each prompt, or the only one, from a decoder-only model; what belongs to each source, from an
/// encoder–decoder. With on_token, every token is passed on as soon as it is certain that no stop sequence takes it
/// away; where that returns false, its sequence ends with this token.
///
/// A sequence whose logits are no numbers, or whom the rules leave no token, ends as failed, with the reason and the
/// tokens before; the others get the text that they get alone. If the model throws once there is text, all that go on
/// end so. What on_token or a processor throws (but for a SequenceError) reaches the caller as it is, and there are no
/// results; the context and the model are as before.
template <class Model>
std::vector<Generated> generate(Context& ctx, const Model& model, const Sequences& prompts,
                                const GenerateConfig& config = {}) {
  if constexpr (detail::decodes_only<Model>) {
    detail::Decoding decoding("generate", ctx, model, config, prompts.ids);
    if (decoding.idle()) return std::vector<Generated>(decoding.texts.size());
    return detail::generate_from(ctx, model, model.start(static_cast<Index>(decoding.texts.size())), decoding, config);
  } else {
    const detail::PaddedIds source(prompts.ids);
    return generate(ctx, model, source.ids, source.lengths, config);
  }
}

}  // namespace eigenformer
