// How to bring your own norm, scores and block: everything below up to the line is what you would write. Then its
// derivative is checked against differences, and it learns to continue periodic sequences.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "eigenformer/block/pre_norm.hpp"
#include "eigenformer/core/initialize.hpp"
#include "eigenformer/layer/position/rotary.hpp"
#include "eigenformer/model/language_model.hpp"
#include "eigenformer/train/trainer.hpp"

using namespace eigenformer;

/// An op of your own: y = x/m by row, m = (mean of x⁴ + ε)^¼. Its derivative: dx = (dy − y³·mean(dy∘y))/m.
template <class T>
ConstView<T, 3> power_norm(Context& ctx, ConstView<T, 3> x, T epsilon) {
  const View<T, 3> y = ctx.output<T>(x.shape());  // the memory of a result, known to the tape
  const View<T, 2> m =
      ctx.arena.allocate<T>(Shape{x.rows(), Index{1}});  // what the derivative needs besides; lives as long
  m.matrix() = (x.matrix().array().square().square().rowwise().mean() + epsilon).sqrt().sqrt();
  y.matrix() = x.matrix().array().colwise() / m.matrix().col(0).array();
  ctx.record(y, [=](Context& back, ConstView<T, 3> dy) {  // holds views and numbers only
    const Gradient<T, 3> dx = back.gradient(x);
    if (!dx) return;  // nobody asked
    const auto out = y.matrix().array();
    const auto slope = dy.matrix().array();
    const auto mean = (slope * out).rowwise().mean().eval();
    dx.put(dx.view.matrix().array(), (slope - out.cube().colwise() * mean).colwise() / m.matrix().col(0).array());
  });
  return y;
}

/// What can be set of a norm: its width, which the block hands down, and your own. The list of fields is for files.
struct PowerNormConfig {
  Index width = 0;
  double epsilon = 1e-6;

  static void fields(auto&& f, auto&... c) {
    f("width", c.width...);
    f("epsilon", c.epsilon...);
  }
  friend bool operator==(const PowerNormConfig&, const PowerNormConfig&) = default;
};

/// A norm: a Config, weights that visit() lists, and a call; library ops may follow your own.
template <Real T>
struct PowerNorm {
  using Config = PowerNormConfig;

  Tensor<T, 1> weight;  // (D)
  double epsilon;

  explicit PowerNorm(const Config& config) : weight(Shape{config.width}), epsilon(config.epsilon) {}
  static void visit(auto&& f, auto&... m) { f(Leaf{"weight", Init::ones}, m.weight...); }
  ConstView<T, 3> operator()(Context& ctx, ConstView<T, 3> x) const {
    return op::affine(ctx, power_norm(ctx, x, static_cast<T>(epsilon)), weight);
  }
};

struct FadingScoresConfig {
  double rate = 0.1;

  static void fields(auto&& f, auto&... c) { f("rate", c.rate...); }
  friend bool operator==(const FadingScoresConfig&, const FadingScoresConfig&) = default;
};

/// Scores that fade with distance: s/(1 + rate·|distance|). One type is the layer's part (bind) and the kernel's (row),
/// whose function of scores s of keys first + j, … takes vectors and several at once.
template <Real T>
struct FadingScores {
  using Config = FadingScoresConfig;
  struct Row {
    T rate, own;
    auto derivative(auto s, Index j, auto n) const {  // by s
      using V = decltype(s);
      return V(T{1}) / fma(V(rate), absolute(kernel::counting(own + static_cast<T>(j), n)), V(T{1}));
    }
    auto operator()(auto s, Index j, auto n) const { return s * derivative(s, j, n); }
  };
  T rate;

  explicit FadingScores(const Config& config) : rate(static_cast<T>(config.rate)) {}
  static void visit(auto&&, auto&...) {}
  FadingScores bind(Context&, const AttentionCall<T>&) const { return *this; }
  Row row(const kernel::ScoreRow& at, Index first, Index) const { return {rate, static_cast<T>(first - at.position)}; }
};

/// A block: half a feed-forward network, attention, the other half (Lu et al. 2019), each after a norm within a
/// residual.
template <Real T_>
struct Macaron {
  using T = T_;
  using Norm = PowerNorm<T>;
  static constexpr bool needs_final_norm = true;

  using SelfAttention = Attention<T, RotaryHeads<T>, FadingScores<T>>;
  using Residual = PreNorm<T, Norm>;
  using Config = EncoderBlockConfig<typename SelfAttention::Config, MlpConfig, typename Residual::Config>;

  Mlp<T> before, after;
  SelfAttention attention;
  Residual before_residual, attention_residual, after_residual;

  explicit Macaron(const Config& config)
      : before(config.completed().feed_forward), after(before), attention(config.completed().attention),
        before_residual(config.completed().residual), attention_residual(before_residual),
        after_residual(before_residual) {}
  static void visit(auto&& f, auto&... m) {
    f("before", m.before...);
    f("after", m.after...);
    f("attention", m.attention...);
    f("before_residual", m.before_residual...);
    f("attention_residual", m.attention_residual...);
    f("after_residual", m.after_residual...);
  }
  ConstView<T, 3> operator()(Context& ctx, ConstView<T, 3> x, const AttentionCall<T>& call) const {
    const auto y = before_residual(ctx, x, [&](auto z) { return op::scale(ctx, before(ctx, z), 0.5); });
    const auto w = attention_residual(ctx, y, [&](auto z) { return attention(ctx, z, call); });
    return after_residual(ctx, w, [&](auto z) { return op::scale(ctx, after(ctx, z), 0.5); });
  }
};

template <Real T>
using Mine = LanguageModel<Macaron<T>, Rotary<T>>;

// ---------------------------------------------------------------------------------------------------------------------------------

/// Sequences that repeat themselves after 2…8 tokens. The first period cannot be known and is no target; when it ends
/// must be guessed.
struct Batch {
  Tensor<Id, 2> ids, targets;

  Batch(RandomSequence& random, Index sequences, Index tokens, Index vocabulary)
      : ids(Shape{sequences, tokens}), targets(Shape{sequences, tokens}) {
    for (Index b = 0; b < sequences; ++b) {
      const Index period = 2 + random.below(7);
      const auto token = [&](Index n) -> Id& { return ids(b, n); };
      for (Index n = 0; n < tokens; ++n)
        token(n) = n < period ? static_cast<Id>(random.below(vocabulary)) : token(n - period);
      for (Index n = 0; n < tokens; ++n) targets(b, n) = n + 1 < period ? -100 : token((n + 1) % period);
    }
  }
};

template <class T>
Loss loss_of(Context& ctx, const Mine<T>& model, const Batch& batch) {
  return op::cross_entropy(ctx, model(ctx, {.ids = batch.ids.view()}), batch.targets.view());
}

/// The largest relative error of any weight's derivative, against differences.
double check_derivative() {
  Mine<double> model({.vocabulary = 5, .layers = 2, .block = {.width = 8, .hidden = 12, .heads = 2, .dropout = 0}});
  initialize(model, 1);
  RandomSequence random(2);
  const Batch batch(random, 2, 12, 5);

  Mine<double> gradient = zeros_like(model);
  Tape tape;
  tape.watch(model, gradient);
  Context recording, plain;
  recording.tape = &tape;
  backward(recording, loss_of(recording, model, batch).sum, 1.0);

  const auto loss = [&] {
    plain.reset();
    return loss_of(plain, model, batch).sum[0];
  };
  double largest = 0;
  walk(
      [&](const Leaf&, auto& weight, const auto& slope) {
        const double floor =
            1e-3 * slope.view().flat().matrix().cwiseAbs().maxCoeff();  // below it, differences are mostly rounding
        for (Index i = 0; i < weight.size(); ++i) {
          double& w = weight.data()[i];
          const double centre = w, step = 1e-5;
          w = centre + step;
          const double above = loss();
          w = centre - step;
          const double below = loss();
          w = centre;
          const double difference = (above - below) / (2 * step), exact = slope.data()[i];
          largest = (std::max)(largest, std::abs(exact - difference) / (std::max)({std::abs(exact), floor, 1e-12}));
        }
      },
      model, gradient);
  std::printf("%lld weights: the derivative and differences differ by %.1e at most, relatively\n",
              static_cast<long long>(parameter_count(model)), largest);
  return largest;
}

int main() {
  const double error = check_derivative();

  constexpr Index vocabulary = 16, tokens = 32, steps = 300;
  Mine<float> model(
      {.vocabulary = vocabulary, .layers = 2, .block = {.width = 64, .hidden = 128, .heads = 4, .dropout = 0}});
  initialize(model, 1);
  Trainer trainer(std::move(model), {.learning_rate = ConstantRate{3e-3}, .clip = 1.0});
  RandomSequence random(3);
  double loss = 0;
  for (Index step = 1; step <= steps; ++step) {
    const Batch batch(random, 32, tokens, vocabulary);
    trainer.accumulate([&](Context& ctx, const Mine<float>& current) { return loss_of(ctx, current, batch); });
    loss = trainer.step().loss;
    if (step == 1 || step % 50 == 0) std::printf("step %3td: loss %.4f\n", step, loss);
  }
  return error < 1e-5 && loss < 0.5 * std::log(vocabulary) ? 0 : 1;
}
