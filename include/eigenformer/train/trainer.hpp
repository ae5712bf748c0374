// Trainer: the training loop's state and its two moves, accumulate() and step().
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "eigenformer/core/context.hpp"
#include "eigenformer/core/initialize.hpp"
#include "eigenformer/core/settings.hpp"
#include "eigenformer/core/visit.hpp"
#include "eigenformer/op/cross_entropy.hpp"
#include "eigenformer/train/adam.hpp"
#include "eigenformer/train/clip.hpp"
#include "eigenformer/train/optimiser.hpp"
#include "eigenformer/train/schedule.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

/// What was accumulated since the last step: sums over tokens.
template <class Model>
struct Accumulated {
  Model gradient;  ///< of the loss
  double loss = 0;
  Index tokens = 0;  ///< that counted in the loss
};

template <class Model, OptimiserOf<Model> Optimiser = Adam<Model>>
struct TrainerConfig {
  typename Optimiser::Config optimiser{};
  std::function<double(Index)> learning_rate{};  ///< of step 1, 2, …, which must be given: see train/schedule.hpp
  std::optional<double> clip{};                  ///< limit of the gradient's norm
  std::uint64_t seed = 0;                        ///< of dropout
  std::vector<std::string> trained{};            ///< parts by their dotted names, e.g. {"head"}; none: the whole model
  std::vector<std::string> frozen{};  ///< parts that stay as they are, e.g. {"embedding", "decoder.blocks.0"}
  /// Called by step() before anything is made of the sums, and by every step(), even if there are no tokens: the place
  /// to add up those of several processes, or to take a scaling of the loss away.
  std::function<void(Context&, Accumulated<Model>&)> before_step{};
};

/// What a step did.
struct StepReport {
  Index step = 0;            ///< steps taken so far
  double loss = 0;           ///< mean per token
  Index tokens = 0;          ///< that counted in the loss
  double gradient_norm = 0;  ///< of the mean loss, before clipping
  double learning_rate = 0;
  bool skipped = false;  ///< no tokens, or a gradient that is not finite or whose square is not: nothing was changed
};

namespace detail {

/// Whether a function's second parameter is a reference, as far as its type tells: of generic ones nothing is known.
template <class F>
inline constexpr bool second_by_reference = true;
template <class R, class C, class First, class Second>
inline constexpr bool second_by_reference<R (C::*)(First, Second) const> = std::is_reference_v<Second>;
template <class R, class C, class First, class Second>
inline constexpr bool second_by_reference<R (C::*)(First, Second)> = std::is_reference_v<Second>;

template <class F>
constexpr bool takes_reference() {
  if constexpr (requires { &F::operator(); }) return second_by_reference<decltype(&F::operator())>;
  else return true;
}

}  // namespace detail

/// Owns the model and all that is needed to go on exactly where it stopped: visit() lists weights, the optimiser's
/// state and counters. Save and load between steps: what was accumulated since the last one is not part of it (see
/// discard()).
template <class Model, OptimiserOf<Model> Optimiser = Adam<Model>>
class Trainer {
 public:
  Model model;
  Optimiser optimiser;
  Tensor<std::int64_t, 1> counters{Shape{2}};  // steps taken, seed of dropout

  Trainer(Model initial, TrainerConfig<Model, Optimiser> config, Threads threads = {})
      : model(std::move(initial)), optimiser(model, config.optimiser),
        config_(std::move(config)), sums_{zeros_like(model)}, ctx_(std::move(threads)) {
    ensure(static_cast<bool>(config_.learning_rate), "trainer",
           "no learning rate is given: e.g. .learning_rate = ConstantRate{1e-3}, or WarmUp{.width = 512}");
    if (config_.clip) require_range("trainer", "clip", *config_.clip, smallest_real);
    choose();
    counters(1) = static_cast<std::int64_t>(config_.seed);
  }
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  static void visit(auto&& f, auto&... m) {
    f("model", m.model...);
    f("optimiser", m.optimiser...);
    f(Leaf{"counters", Init::zeros, Decay::no, validate_counters}, m.counters...);
  }

  Index steps() const { return static_cast<Index>(counters(0)); }
  const Model& gradient() const {
    return sums_.gradient;
  }  ///< of the summed loss, since the last step; any numbers before that

  /// Adds the gradient of one (micro-)batch; loss(ctx, model) computes it, with the model and context that it is given,
  /// and returns a Loss. Several calls before a step() make one batch of all their tokens. Ids, lengths and masks may
  /// be local to the callback; other tensors that ops read must outlive the call. What the callback computes in a
  /// ctx.scratch() scope, or with ctx.tape set aside, is a constant to its loss. If the callback throws, it is as if
  /// the call had not been, and what earlier ones added stays. If a derivative throws, or the callback called
  /// backward() itself, all since the last step is discarded.
  template <class F>
  void accumulate(F&& loss) {
    static_assert(detail::takes_reference<std::remove_cvref_t<F>>(),
                  "the loss takes the model as const Model&: a copy has no gradient");
    const auto busy = begin("accumulate");
    require_initialized(model, "trainer");
    if (!std::exchange(examined_, true)) require_parts_initialized(model, "trainer");
    const Random before = random_;
    if (!pending_) random_ = {static_cast<std::uint64_t>(counters(1)), static_cast<std::uint32_t>(steps() + 1), 0};
    bool counted = false;
    const auto unless_counted = finally([&] {
      if (!counted) random_ = before;  // as if the call had not been
      if (!counted && tape_.reached()) forget();
      ctx_.reset();
    });
    ctx_.tape = &tape_;  // an earlier callback may have thrown with it set aside
    ctx_.random = &random_;
    tape_.forget();
    watch();  // every time: the model may have been assigned to
    const Loss result = loss(ctx_, std::as_const(model));
    ensure(!tape_.reached(), "trainer", "the loss called backward() itself");
    if (result.tokens == 0) return;
    ensure(ctx_.tape == &tape_, "trainer", "the loss did not put the context's tape back");
    backward(ctx_, result.sum, 1.0);
    ensure(
        tape_.reached(), "trainer",
        "the loss depends on no weight of this trainer's model: compute it with the model that the callback is given");
    sums_.loss += result.sum[0];
    sums_.tokens += result.tokens;
    pending_ = counted = true;
  }

  /// One optimiser step on the mean over all tokens accumulated since the last; then starts anew. If before_step
  /// throws, all since the last step is discarded.
  StepReport step() {
    const auto busy = begin("step");
    bool done = false;
    const auto start_anew = finally([&] {
      if (done || config_.before_step) forget();
    });
    if (config_.before_step) {
      if (!pending_) set_zero(sums_.gradient);
      const auto memory = ctx_.scratch();
      ctx_.tape = nullptr;
      ctx_.random = nullptr;
      config_.before_step(ctx_, sums_);
    }
    StepReport report{.step = steps(), .tokens = sums_.tokens, .skipped = true};
    if (sums_.tokens > 0) {
      const auto tokens = static_cast<double>(sums_.tokens);
      const auto chosen = [&](std::size_t i) { return trains_[i]; };
      report.loss = sums_.loss / tokens;
      report.gradient_norm = global_norm(ctx_, sums_.gradient, chosen) / tokens;
      const double clip = config_.clip ? clip_factor(report.gradient_norm, *config_.clip) : 1;
      if (report.gradient_norm * clip < largest_gradient) {
        report.learning_rate = config_.learning_rate(steps() + 1);
        optimiser.step(ctx_.threads,
                       {.number = steps() + 1, .learning_rate = report.learning_rate, .gradient_scale = clip / tokens},
                       model, sums_.gradient, chosen);
        report.step = static_cast<Index>(++counters(0));
        report.skipped = false;
      }
    }
    done = true;
    return report;
  }

  /// Forgets what was accumulated since the last step.
  void discard() {
    const auto busy = begin("discard");
    forget();
  }

 private:
  static constexpr double largest_gradient = 1e19;  // a float holds the square of any smaller one

  static void validate_counters(std::span<const std::int64_t> counters) {
    ensure(counters[0] >= 0 && counters[0] < largest_extent, "trainer", "steps ", counters[0],
           " is invalid: must be in 0…", largest_extent - 1);
  }

  /// Finds out which weights the config trains.
  void choose() {
    std::vector<std::string> names;
    walk([&](const std::string& name, const Leaf&, const auto&) { names.push_back(name); }, std::as_const(model));
    const auto in_part = [](std::string_view name, std::string_view part) {
      return name.starts_with(part) && (name.size() == part.size() || name[part.size()] == '.');
    };
    for (const auto* const parts : {&config_.trained, &config_.frozen})
      for (const std::string& part : *parts)
        ensure(std::any_of(names.begin(), names.end(), [&](const std::string& name) { return in_part(name, part); }),
               "trainer", "there is no weight, nor a part with weights, of the name \"", part, "\"; its parts are ",
               parts_of(names));
    for (const std::string& name : names) {
      const auto in_any = [&](const std::vector<std::string>& parts) {
        return std::any_of(parts.begin(), parts.end(), [&](const std::string& part) { return in_part(name, part); });
      };
      trains_.push_back((config_.trained.empty() || in_any(config_.trained)) && !in_any(config_.frozen));
    }
    ensure(std::find(trains_.begin(), trains_.end(), true) != trains_.end(), "trainer", "all weights are frozen");
  }

  /// The first parts of dotted names: "embedding, decoder".
  static std::string parts_of(const std::vector<std::string>& names) {
    std::string text, last;
    for (const std::string& name : names)
      if (const std::string part = name.substr(0, name.find('.')); part != last) {
        text += (text.empty() ? "" : ", ") + part;
        last = part;
      }
    return text;
  }

  /// Frozen weights are constants to the tape, so that their gradients, zero since the beginning, are not computed.
  void watch() {
    std::size_t number = 0;
    walk(
        [&](const Leaf&, const auto& weight, auto& gradient) {
          if (trains_[number++])
            tape_.watch(weight.view(), gradient.view(), pending_ ? Tape::Start::add : Tape::Start::overwrite);
        },
        std::as_const(model), sums_.gradient);
  }

  template <class F>
  static auto finally(F f) {
    struct Guard {
      F f;
      ~Guard() { f(); }
    };
    return Guard{std::move(f)};
  }

  /// No call goes on within another one.
  auto begin(std::string_view call) {
    ensure(!busy_, "trainer", call, "() was called from within a callback");
    busy_ = true;
    return finally([this] { busy_ = false; });
  }
  void forget() {
    sums_.loss = 0;
    sums_.tokens = 0;
    pending_ = false;
  }

  TrainerConfig<Model, Optimiser> config_;
  std::vector<bool> trains_;  // by number in the walk: whether a weight is stepped
  Accumulated<Model> sums_;
  Context ctx_;
  Tape tape_;
  Random random_;
  bool pending_ = false, busy_ = false, examined_ = false;
};

}  // namespace eigenformer
