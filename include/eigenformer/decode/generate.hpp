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
#include "eigenformer/core/format.hpp"
#include "eigenformer/decode/decoding.hpp"
#include "eigenformer/decode/draft.hpp"
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
  Index first_sequence = 0;       ///< the number of the first sequence, for drawing: prompt i alone, with this
                                  ///< number i, gives the text that it gives among others
  Index chunk = 512;              ///< prompts are read by so many tokens a pass: bounds the memory
  Format cache = Format::scalar;  ///< of keys and values: bf16 or int8 take less memory, see KvCache
  std::optional<Draft> draft{};   ///< `&small_model`, LookUp{}, …: the same text with fewer passes of the model
  Index draft_tokens = 4;         ///< at most so many before each pass of the model

  /// Throws if a setting that only generate() has is invalid.
  void validate(std::size_t sequences) const {
    require_range("generate", "draft_tokens", draft_tokens, 0, largest_index);
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
  Index proposed = 0;     ///< tokens, by a draft
  Index accepted = 0;     ///< of these: they are what the model chose
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

/// A text, and behind what is certain of it what a draft proposes.
struct OpenText {
  std::vector<Id>& ids;
  Index prompt, known;  // tokens given, and certain

  explicit OpenText(std::vector<Id>& of) : ids(of), prompt(static_cast<Index>(of.size())), known(prompt) {}
  Index generated() const { return known - prompt; }
  DecodeStep step(Index sequence) const {
    return {std::span<const Id>(ids).first(static_cast<std::size_t>(known)), generated(), sequence};
  }
  /// One more token is certain → whether it is the one that was proposed; else none stands.
  bool take(Id token) {
    const auto at = static_cast<std::size_t>(known++);
    if (at < ids.size() && ids[at] == token) return true;
    ids.resize(at);
    ids.push_back(token);
    return false;
  }
};

/// The draft of one call, with its own notes.
class Drafting {
 public:
  explicit Drafting(const GenerateConfig& config) : config_(config), draft_(*config.draft), scope_(without_own()) {}
  Drafting(const Drafting&) = delete;
  Drafting& operator=(const Drafting&) = delete;

  /// Appends what is proposed for the live texts → how many logits that makes for each; null: nothing is proposed. The
  /// vocabulary is 0 as long as it is not known.
  std::span<const Index> operator()(Context& ctx, Index vocabulary, std::span<const std::size_t> live,
                                    std::vector<OpenText>& texts, std::vector<Generated>& results) {
    steps_.clear(), most_.clear(), wanted_.clear();
    proposals_.resize(live.size());
    for (const std::size_t i : live) {
      steps_.push_back(texts[i].step(config_.first_sequence + static_cast<Index>(i)));
      const Index room = config_.max_tokens - texts[i].generated() - 1;  // a pass brings one token more
      most_.push_back(vocabulary == 0 ? 0 : (std::min)(config_.draft_tokens, room));
    }
    for (auto& proposed : proposals_) proposed.clear();
    draft_(ctx, {scope_, config_.sampling, vocabulary, config_.chunk, config_.draft_tokens, steps_, most_, proposals_});
    bool any = false;
    for (std::size_t i = 0; i < live.size(); ++i) {
      const auto begin = proposals_[i].begin();
      auto end = begin + (std::min)(most_[i], static_cast<Index>(proposals_[i].size()));
      end = std::find_first_of(begin, end, config_.eos.begin(), config_.eos.end());  // nothing comes after it
      for (auto id = begin; id != end; ++id)
        ensure(*id >= 0 && *id < vocabulary, "draft", "token ", *id, " is not in a vocabulary of ", vocabulary);
      auto& ids = texts[live[i]].ids;
      ids.insert(ids.end(), begin, end);
      results[live[i]].proposed += end - begin;
      wanted_.push_back(end - begin + 1);
      any = any || begin != end;
    }
    return any ? std::span<const Index>(wanted_) : std::span<const Index>();
  }

 private:
  /// Processors of the user see the text alone that there is in the end.
  RuleScope without_own() {
    config_.rules.processors.clear();
    return RuleScope(config_);
  }

  GenerateConfig config_;
  Draft draft_;
  RuleScope scope_;
  std::vector<DecodeStep> steps_;  // memory for a call, as all below
  std::vector<Index> most_, wanted_;
  std::vector<std::vector<Id>> proposals_;
};

/// The loop, for either kind of model, from a new state.
template <class Model>
std::vector<Generated> generate_from(Context& ctx, const Model& model, typename Model::State state, Decoding& decoding,
                                     const GenerateConfig& config) {
  using T = typename Model::T;
  constexpr bool goes_back = requires(std::span<const Index> lengths) { state.truncate(lengths); };
  ensure(goes_back || !config.draft, "generate", "no draft can be used with a state that has no truncate()");
  auto& scope = decoding.scope;
  const std::size_t all = decoding.texts.size();
  std::vector<Generated> results(all);
  std::vector<Collector> collectors;
  std::vector<OpenText> texts;
  for (std::size_t i = 0; i < all; ++i) {
    collectors.emplace_back(config, static_cast<Index>(i), results[i]);
    texts.emplace_back(decoding.texts[i]);
  }
  std::vector<Sampler<T>> samplers(static_cast<std::size_t>(ctx.threads.count()),
                                   Sampler<T>(scope, config.sampling, config.log_probabilities));
  std::optional<Drafting> drafting;
  if (config.draft) drafting.emplace(config);
  Reader reader(config.chunk);
  decoding.reserve(state);

  std::vector<std::size_t> live(all);  // what the sequences of the state are
  std::iota(live.begin(), live.end(), std::size_t{0});
  std::vector<std::size_t> choosing, confirmed;  // sequences
  std::vector<Index> rows(all), going, lengths;
  std::vector<Choice> choices(all);
  std::vector<std::string> failures(all);  // why there is no choice
  std::vector<char> ended(all);
  for (Index vocabulary = 0; !live.empty();) {
    const auto memory = ctx.scratch();
    const auto wanted = drafting ? (*drafting)(ctx, vocabulary, live, texts, results) : std::span<const Index>();
    ConstView<T, 2> logits;  // (live, V), or (all wanted, V)
    try {
      logits = reader(
          ctx, model, state, [&](Index i) -> const auto& { return texts[live[static_cast<std::size_t>(i)]].ids; },
          wanted);
    } catch (const std::exception& error) {
      if (vocabulary == 0) throw;
      for (const std::size_t i : live) collectors[i].fail(error.what());
      break;
    }
    if (vocabulary == 0) scope.check_vocabulary(vocabulary = logits.width());
    choosing.clear();
    for (std::size_t i = 0; i < live.size(); ++i) {
      rows[i] = i == 0 ? 0 : rows[i - 1] + (wanted.empty() ? 1 : wanted[i - 1]);
      choosing.push_back(i);
      ended[i] = false;
    }
    while (!choosing.empty()) {  // a token for each; then for those where it is the one that was proposed, one more
      for_rows(ctx.threads, config.rules, static_cast<Index>(choosing.size()), logits.width(), [&](Index n, int slot) {
        const std::size_t i = choosing[static_cast<std::size_t>(n)];
        try {
          choices[i] = samplers[static_cast<std::size_t>(slot)](
              texts[live[i]].step(config.first_sequence + static_cast<Index>(live[i])),
              std::span(logits.row(rows[i]), static_cast<std::size_t>(logits.width())));
        } catch (const SequenceError& error) {
          failures[i] = error.what();
        }
      });
      confirmed.clear();
      for (const std::size_t i : choosing) {
        Collector& collector = collectors[live[i]];
        if (!failures[i].empty()) {
          collector.fail(std::exchange(failures[i], {}));
          ended[i] = true;
          continue;
        }
        const bool proposed = texts[live[i]].take(choices[i].token);
        results[live[i]].accepted += proposed;
        ended[i] = !collector.add(choices[i]);
        if (proposed && !ended[i]) confirmed.push_back(i), ++rows[i];
      }
      std::swap(choosing, confirmed);
    }
    going.clear();
    for (std::size_t i = 0; i < live.size(); ++i)
      if (!ended[i]) going.push_back(static_cast<Index>(i));
    if (going.size() < live.size()) {
      for (std::size_t i = 0; i < going.size(); ++i) live[i] = live[static_cast<std::size_t>(going[i])];
      live.resize(going.size());
      if (!live.empty()) state.select(going);
    }
    if constexpr (goes_back)
      if (!wanted.empty() && !live.empty()) {
        lengths.clear();
        for (const std::size_t i : live) lengths.push_back(texts[i].known - 1);
        state.truncate(lengths);
      }
  }
  return results;
}

}  // namespace detail

/// What belongs to each source (B, M) of a length (B; null: all M), from an encoder–decoder; otherwise as below.
template <class Model>
std::vector<Generated> generate(Context& ctx, const Model& model, ConstView<Id, 2> source, ConstView<Index, 1> lengths,
                                const GenerateConfig& config = {}) {
  detail::Decoding decoding("generate", ctx, model, config, source);
  if (decoding.idle()) return std::vector<Generated>(decoding.texts.size());
  const auto memory = ctx.scratch();
  return detail::generate_from(ctx, model, detail::start("generate", model, config.cache, ctx, source, lengths),
                               decoding, config);
}

/// What follows each prompt, or the only one, from a decoder-only model; what belongs to each source, from an
/// encoder–decoder. With on_token, every token is passed on as soon as it is certain that no stop sequence takes it
/// away; where that returns false, its sequence ends with this token.
///
/// A sequence whose logits are no numbers, or whom the rules leave no token, ends as failed, with the reason and the
/// tokens before; the others get the text that they get alone. If the model throws once there is text, all that go on
/// end so. What on_token, a draft or a processor throws (but for a SequenceError) reaches the caller as it is, and
/// there are no results; the context and the model are as before.
///
/// With a draft, sequences go on by different numbers of tokens a pass, and so does on_token.
template <class Model>
std::vector<Generated> generate(Context& ctx, const Model& model, const Sequences& prompts,
                                const GenerateConfig& config = {}) {
  if constexpr (detail::decodes_only<Model>) {
    detail::Decoding decoding("generate", ctx, model, config, prompts.ids);
    if (decoding.idle()) return std::vector<Generated>(decoding.texts.size());
    return detail::generate_from(
        ctx, model, detail::start("generate", model, config.cache, static_cast<Index>(decoding.texts.size())), decoding,
        config);
  } else {
    const detail::PaddedIds source(prompts.ids);
    return generate(ctx, model, source.ids, source.lengths, config);
  }
}

}  // namespace eigenformer
