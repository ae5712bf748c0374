// Beam search: the most probable texts, of those that K hypotheses side by side come across.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <exception>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "eigenformer/core/context.hpp"
#include "eigenformer/core/format.hpp"
#include "eigenformer/decode/decoding.hpp"
#include "eigenformer/decode/reader.hpp"
#include "eigenformer/decode/rules.hpp"
#include "eigenformer/decode/sequences.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

/// What a total log-probability is divided by, so that texts of different lengths compare.
enum class LengthPenalty {
  none,   ///< 1
  wu,     ///< ((5 + length) / 6)^α (Wu et al. 2016)
  power,  ///< length^α: with α = 1 the mean
};

/// Of so many generated tokens, the eos token included, whether a text has ended or was cut; the prompt does not count.
inline double length_penalty(LengthPenalty rule, double alpha, Index length) {
  const auto n = static_cast<double>(length);
  return rule == LengthPenalty::none ? 1 : std::pow(rule == LengthPenalty::wu ? (5 + n) / 6 : n, alpha);
}

struct BeamConfig {
  Index max_tokens = 100;   ///< at most so many per text, an eos token included
  Index min_tokens = 0;     ///< at least so many before eos
  std::vector<Id> eos{};    ///< any of them ends a text
  std::optional<Id> bos{};  ///< comes before every prompt; encoder–decoders need it
  Index beams = 4;          ///< K
  Index n_best = 1;         ///< how many texts are kept of each sentence, at most K
  LengthPenalty penalty = LengthPenalty::none;
  double alpha = 1;
  std::vector<std::vector<Id>> prefixes{};  ///< what each text is made to begin with; counts as generated
  TokenRules rules{};                       ///< on log-probabilities, which are not made to sum to 1 again
  bool forced_cost = false;  ///< rules.forced cost what the model says; else nothing: their log-probability is 0, as in
                             ///< transformers. Tokens of a prefix cost what the model says in either case
  bool stop_early = true;    ///< leave a sentence when nothing can change its results. Takes it that no rule makes a
                             ///< log-probability positive
  Index chunk = 512;         ///< prompts are read by so many tokens a pass: bounds the memory
  Format cache = Format::scalar;  ///< of keys and values: bf16 or int8 take less memory, see KvCache

  /// Throws if a setting that only beam_search() has is invalid.
  void validate(std::size_t) const {
    require_range("beam_search", "beams", beams, 1, Index{1} << 20);
    require_range("beam_search", "n_best", n_best, 1, beams);
    require_range("beam_search", "alpha", alpha, std::numeric_limits<double>::lowest(), detail::endless);
    const double longest = length_penalty(penalty, alpha, (std::max)(max_tokens, Index{1}));
    ensure(std::isnormal(longest), "beam_search", "the length penalty of ", max_tokens, " tokens, of exponent ", alpha,
           ", is ", longest);
  }
};

struct Hypothesis {
  std::vector<Id> tokens;                 ///< without prompt and eos token
  std::vector<double> log_probabilities;  ///< of the tokens, and of the eos token if there was one; after the rules
  double score = 0;                       ///< their sum
  double normalized = 0;                  ///< divided by the length penalty
  bool ended = false;                     ///< by an eos token, not by length
  std::string failure{};  ///< why it could not go on, if so: then it is normalized to −∞, and the last of its sentence
};

namespace detail {

/// A next token of a beam.
struct Candidate {
  double score, log_probability;
  Index beam;
  Id token;

  /// Ties go to the lowest beam and id: the order is the same whatever else is searched for.
  friend bool operator<(const Candidate& a, const Candidate& b) {
    if (a.score != b.score) return a.score > b.score;
    return a.beam != b.beam ? a.beam < b.beam : a.token < b.token;
  }
};

/// A text that goes on.
struct Beam {
  std::vector<Id> text;  // with the prompt
  std::vector<double> log_probabilities;
  double score = 0;

  /// With room for so many tokens.
  explicit Beam(std::size_t tokens) {
    text.reserve(tokens);
    log_probabilities.reserve(tokens);
  }

  /// Another one and its next token.
  void become(const Beam& other, const Candidate& next) {
    text.assign(other.text.begin(), other.text.end());
    text.push_back(next.token);
    log_probabilities.assign(other.log_probabilities.begin(), other.log_probabilities.end());
    log_probabilities.push_back(next.log_probability);
    score = next.score;
  }
};

/// The best next tokens of one beam after another. Takes notes: one object for each thread.
template <class T>
class Ranker {
 public:
  Ranker(const RuleScope& scope, bool forced_cost) : rules_(scope), forced_cost_(forced_cost) {}

  /// From logits (V), at most `count`: scores are those of the tokens alone. Returns how many there are; none, and why,
  /// on a failure.
  Index operator()(const DecodeStep& at, std::span<const T> logits, Index count, Candidate* candidates,
                   std::string& failure) try {
    const auto width = static_cast<Index>(logits.size());
    check_logits(at, logits.data(), width);
    const auto total = kernel::softmax_sum(logits.data(), width, [](auto...) {});
    if (!(total.sum > 0)) fail_without_tokens(at);
    Index found = 0;
    const auto put = [&](Id token, double value) { candidates[found++] = {value, value, 0, token}; };
    const auto of_model = [&, log_sum = total.log_sum_exp()](Id token) {
      return static_cast<double>(logits[static_cast<std::size_t>(token)]) - log_sum;
    };
    if (const auto token = rules_.forced(at)) {
      const double value = forced_cost_ || rules_.prefix(at) ? of_model(*token) : 0;
      if (!std::isinf(value)) put(*token, value);
    } else if (!rules_.needed()) {
      for (const Id id : kernel::top(logits.data(), width, count, room_)) put(id, of_model(id));
    } else {
      row_.resize(logits.size());
      kernel::row_map(row_.data(), width) =
          (kernel::row_map(logits.data(), width) - total.largest) - std::log(total.sum);
      rules_(at, std::span<T>(row_));
      for (const Id id : kernel::top(row_.data(), width, count, room_))
        put(id, static_cast<double>(row_[static_cast<std::size_t>(id)]));
    }
    return found;
  } catch (const SequenceError& error) {
    failure = error.what();
    return 0;
  }

 private:
  RuleSet rules_;
  bool forced_cost_;
  std::vector<T> row_;
  kernel::TopRoom room_;
};

/// One sentence: its results so far, the best first.
class Sentence {
 public:
  Sentence(const BeamConfig& config, std::size_t prompt) : config_(config), prompt_(prompt) {}

  Index beams = 1;  ///< how many go on

  /// What becomes of the candidates of a step: ends among the best K are kept, the best K others go on as `next` beams,
  /// from `parents`.
  void go_on(const std::vector<Beam>& beams_before, std::vector<Candidate>& pool, Index step, std::vector<Beam>& next,
             std::vector<Index>& parents) {
    std::sort(pool.begin(), pool.end());
    const std::size_t begin = parents.size();
    Index ranked = 0, others = 0;  // of those, tokens that do not end
    for (const Candidate& each : pool) {
      const Beam& beam = beams_before[static_cast<std::size_t>(each.beam)];
      const bool among_best = ranked++ < config_.beams;
      if (std::find(config_.eos.begin(), config_.eos.end(), each.token) != config_.eos.end()) {
        if (among_best) keep(beam, each, true);
      } else if (others < config_.beams) {
        ++others;
        if (step + 1 == config_.max_tokens) {
          keep(beam, each, false);
          continue;
        }
        if (next.size() == parents.size()) next.emplace_back(beam.text.capacity());
        next[parents.size()].become(beam, each);
        parents.push_back(each.beam);
      }
    }
    if (parents.size() > begin && settled(next[begin].score, step + 1)) parents.resize(begin);
    beams = static_cast<Index>(parents.size() - begin);
  }

  /// A text that cannot go on. The first, of those the best, is reported.
  void fail(const Beam& beam, const std::string& reason) {
    if (!failed_)
      failed_ = Hypothesis{{beam.text.begin() + static_cast<Index>(prompt_), beam.text.end()},
                           beam.log_probabilities,
                           beam.score,
                           -std::numeric_limits<double>::infinity(),
                           false,
                           reason};
  }

  std::vector<Hypothesis> take() {
    if (failed_) kept_.push_back(std::move(*failed_));
    return std::move(kept_);
  }
  /// Whether nothing goes on and nothing is there.
  bool over() const { return beams == 0 && kept_.empty(); }

 private:
  /// A text that is complete. Of equals the first stays.
  void keep(const Beam& beam, const Candidate& last, bool ended) {
    const auto length = static_cast<Index>(beam.log_probabilities.size()) + 1;
    const double normalized = last.score / length_penalty(config_.penalty, config_.alpha, length);
    if (full() && normalized <= kept_.back().normalized) return;
    Hypothesis text{{beam.text.begin() + static_cast<Index>(prompt_), beam.text.end()},
                    beam.log_probabilities,
                    last.score,
                    normalized,
                    ended};
    if (!ended) text.tokens.push_back(last.token);
    text.log_probabilities.push_back(last.log_probability);
    const auto place = std::find_if(kept_.begin(), kept_.end(),
                                    [&](const Hypothesis& other) { return other.normalized < normalized; });
    kept_.insert(place, std::move(text));
    if (static_cast<Index>(kept_.size()) > config_.n_best) kept_.pop_back();
  }

  /// Whether no text that goes on from this score and length can be among the results. Scores do not grow, and
  /// penalties change with the length in one direction: the best it can reach is as long as possible, or as short.
  bool settled(double score, Index length) const {
    const auto reach = [&](Index at) { return score / length_penalty(config_.penalty, config_.alpha, at); };
    return config_.stop_early && full() &&
           (std::max)(reach(length + 1), reach(config_.max_tokens)) <= kept_.back().normalized;
  }

  bool full() const { return static_cast<Index>(kept_.size()) == config_.n_best; }

  const BeamConfig& config_;
  std::size_t prompt_;
  std::vector<Hypothesis> kept_;
  std::optional<Hypothesis> failed_;
};

/// Of so many sentences that nothing is asked of: one text each.
inline std::vector<std::vector<Hypothesis>> empty_hypotheses(std::size_t sentences) {
  return std::vector<std::vector<Hypothesis>>(sentences, std::vector<Hypothesis>(1));
}

/// The search, for either kind of model, from a new state.
template <class Model>
std::vector<std::vector<Hypothesis>> beam_search_from(Context& ctx, const Model& model, typename Model::State state,
                                                      const Decoding& decoding, const BeamConfig& config) {
  using T = typename Model::T;
  const auto& [scope, texts] = decoding;
  std::vector<Ranker<T>> rankers(static_cast<std::size_t>(ctx.threads.count()), Ranker<T>(scope, config.forced_cost));
  Reader reader(config.chunk);
  decoding.reserve(state);

  std::vector<Sentence> sentences;
  std::vector<std::size_t> live(texts.size());  // sentences that go on; the beams of each lie side by side
  std::iota(live.begin(), live.end(), std::size_t{0});
  std::vector<Beam> beams, next;  // first one for each sentence; those beyond the sequences of the state are spare
  for (const auto& text : texts) {
    sentences.emplace_back(config, text.size());
    beams.emplace_back(text.size() + decoding.expected());
    beams.back().text.assign(text.begin(), text.end());
  }
  std::vector<std::size_t> owners(live);  // whose each beam is
  std::vector<Candidate> pool;
  std::vector<Index> parents;
  std::vector<std::string> failures;  // of each beam
  // So many of each beam are enough for the best K of all, and for K that go on even if the ends are before them. A
  // single beam is greedy decoding: it has no second best to go on with after its end.
  const Index wanted = config.beams == 1 ? 1 : config.beams + static_cast<Index>(config.eos.size());

  for (Index step = 0; !live.empty(); ++step) {  // every beam has generated so many tokens
    const auto memory = ctx.scratch();
    ConstView<T, 2> logits;  // (beams, V)
    try {
      logits = reader(ctx, model, state,
                      [&](Index i) { return std::span<const Id>(beams[static_cast<std::size_t>(i)].text); });
    } catch (const std::exception& error) {
      if (step == 0) throw;
      Index first = 0;
      for (const std::size_t number : live) {
        sentences[number].fail(beams[static_cast<std::size_t>(first)], error.what());
        first += sentences[number].beams;
      }
      break;
    }
    if (step == 0) scope.check_vocabulary(logits.width());
    const Index count = logits.extent(0), most = (std::min)(wanted, logits.width());
    const auto candidates = ctx.arena.allocate<Candidate>(Shape{count, most});
    const auto found = ctx.arena.allocate<Index>(Shape{count});
    failures.resize(static_cast<std::size_t>(count));
    for_rows(ctx.threads, config.rules, count, logits.width(), [&](Index i, int slot) {
      const auto beam = static_cast<std::size_t>(i);
      found[i] = rankers[static_cast<std::size_t>(slot)](
          {beams[beam].text, step, static_cast<Index>(owners[beam])},
          std::span(logits.row(i), static_cast<std::size_t>(logits.width())), most, candidates.row(i), failures[beam]);
    });

    parents.clear();
    owners.clear();
    std::size_t going = 0;
    Index first = 0;  // beam of the sentence
    for (const std::size_t number : live) {
      Sentence& sentence = sentences[number];
      const Beam& best = beams[static_cast<std::size_t>(first)];
      pool.clear();
      for (Index i = first; i < first + sentence.beams; ++i) {
        if (std::string& failure = failures[static_cast<std::size_t>(i)]; !failure.empty())
          sentence.fail(beams[static_cast<std::size_t>(i)], std::exchange(failure, {}));
        for (Index c = 0; c < found[i]; ++c) {
          const Candidate& each = candidates(i, c);
          ensure(!config.stop_early || each.log_probability <= 0, "beam_search", "sentence ", number, ", step ", step,
                 ": a rule made the log-probability of token ", each.token, " positive: stop_early must be off");
          pool.push_back(
              {beams[static_cast<std::size_t>(i)].score + each.log_probability, each.log_probability, i, each.token});
        }
      }
      first += sentence.beams;
      sentence.go_on(beams, pool, step, next, parents);
      if (sentence.over()) sentence.fail(best, without_tokens({{}, step, static_cast<Index>(number)}));
      owners.resize(parents.size(), number);
      if (sentence.beams > 0) live[going++] = number;
    }
    live.resize(going);
    std::swap(beams, next);
    if (!live.empty()) state.select(parents);
  }

  std::vector<std::vector<Hypothesis>> results;
  results.reserve(sentences.size());
  for (Sentence& sentence : sentences) results.push_back(sentence.take());
  return results;
}

}  // namespace detail

/// Of what an encoder–decoder says for each source (B, M) of a length (B; null: all M), the best; otherwise as below.
template <class Model>
std::vector<std::vector<Hypothesis>> beam_search(Context& ctx, const Model& model, ConstView<Id, 2> source,
                                                 ConstView<Index, 1> lengths, const BeamConfig& config = {}) {
  const detail::Decoding decoding("beam_search", ctx, model, config, source);
  if (decoding.idle()) return detail::empty_hypotheses(decoding.texts.size());
  const auto memory = ctx.scratch();
  return detail::beam_search_from(ctx, model, detail::start("beam_search", model, config.cache, ctx, source, lengths),
                                  decoding, config);
}

/// Of the continuations of each prompt, or of the only one, by a decoder-only model, or of what an encoder–decoder says
/// for each source: the best, at most n_best; the best first. Ends count among the K best candidates of a step, and K
/// others go on.
///
/// As in transformers, a hypothesis is worth the sum of its tokens' log-probabilities, a softmax of the logits which
/// the rules change then, and which is not made to sum to 1 again (there: unless renormalize_logits); with
/// LengthPenalty::power it is divided by length^α, where the eos token counts and the prompt does not. Forced tokens
/// cost nothing, see forced_cost: {0, id} is forced_bos_token_id, {max_tokens − 1, id} forced_eos_token_id. With
/// stop_early the results are those of early_stopping = "never", which the heuristic of early_stopping = false may
/// miss. min_tokens is min_new_tokens; rules.suppressed are suppress_tokens, and bad_words_ids of one token each.
///
/// A hypothesis whose logits are no numbers goes on no more; the others of its sentence do, and it comes after the
/// results, with the reason. So does the best of a sentence of which the rules leave nothing, and that of each that
/// goes on if the model throws once there is text. Other sentences have the results that they have alone. What a
/// processor throws is as in generate().
template <class Model>
std::vector<std::vector<Hypothesis>> beam_search(Context& ctx, const Model& model, const Sequences& prompts,
                                                 const BeamConfig& config = {}) {
  if constexpr (detail::decodes_only<Model>) {
    const detail::Decoding decoding("beam_search", ctx, model, config, prompts.ids);
    if (decoding.idle()) return detail::empty_hypotheses(decoding.texts.size());
    return detail::beam_search_from(
        ctx, model, detail::start("beam_search", model, config.cache, static_cast<Index>(decoding.texts.size())),
        decoding, config);
  } else {
    const detail::PaddedIds source(prompts.ids);
    return beam_search(ctx, model, source.ids, source.lengths, config);
  }
}

}  // namespace eigenformer
