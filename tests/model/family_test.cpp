// Every family at a small size: its derivative against differences, and the same bits for any number of threads and any
// company in the batch, forward and backward. A new family joins by one line.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "eigenformer/model/bert.hpp"
#include "eigenformer/model/decoders.hpp"
#include "eigenformer/model/heads.hpp"
#include "eigenformer/model/t5.hpp"
#include "eigenformer/op/cross_entropy.hpp"
#include "support/error.hpp"
#include "support/gradient_check.hpp"

namespace eigenformer::test {
namespace {

constexpr Id family_vocabulary = 7;

/// A decoder of two layers; `change` makes it a family's.
template <template <class> class Model>
auto small_decoder(auto change) {
  typename Model<float>::Config config{
      .vocabulary = family_vocabulary,
      .max_positions = 80,
      .layers = 2,
      .block = {.width = 8, .hidden = 6, .heads = 3, .dropout = 0, .attention = {.head_width = 4}}};
  change(config);
  return config;
}
template <template <class> class Model>
auto small_decoder() {
  return small_decoder<Model>([](auto&) {});
}

/// What the LLaMA family has in common.
template <template <class> class Model = Llama>
auto small_llama(auto change) {
  return small_decoder<Model>([&](auto& c) {
    c.block.attention.bias = false;
    c.block.heads = 4;
    c.block.attention.kv_heads = 2;
    c.tied = false;
    change(c);
  });
}
auto small_llama() {
  return small_llama([](auto&) {});
}

Bert<>::Config small_bert() {
  return {.vocabulary = family_vocabulary,
          .max_positions = 80,
          .layers = 2,
          .block = {.width = 9, .hidden = 6, .heads = 3, .dropout = 0}};
}

template <template <class> class Model>
auto small_pair(auto change) {
  typename Model<float>::Config config{.source_vocabulary = family_vocabulary,
                                       .target_vocabulary = family_vocabulary,
                                       .encoder_layers = 2,
                                       .decoder_layers = 2,
                                       .block = {.width = 9, .hidden = 6, .heads = 3, .dropout = 0},
                                       .max_positions = 80};
  change(config);
  return config;
}
template <template <class> class Model>
auto small_t5() {
  return small_pair<Model>([](auto& c) {
    c.block.attention.bias = false;
    c.block.feed_forward.bias = false;
    c.block.attention.scale = 1;
    c.scaled_embedding = false;
    c.logit_scale = 0.3;
  });
}
template <class T>
using PaperModel = EncoderDecoder<PostNorm<T>>;

/// A batch of token ids with lengths, to be run by any kind of model.
struct Batch {
  Tensor<Id, 2> ids;
  Tensor<Index, 1> lengths;

  Batch(Index batch, Index tokens)
      : ids(random_ids(Shape{batch, tokens}, 0, family_vocabulary, 3)), lengths(Shape{batch}) {
    for (Index b = 0; b < batch; ++b) lengths(b) = tokens - b * tokens / (2 * batch);
  }
  Batch(const Batch& of, Index b)
      : ids(Tensor<Id, 2>(of.ids.view().slice(0, b, 1).slice(1, 0, of.lengths(b)))), lengths(Shape{1}) {
    lengths(0) = of.lengths(b);
  }
};

/// Logits or hidden states (B, N, …) of a family on a batch.
template <class Model>
ConstView<typename Model::T, 3> run_family(Context& ctx, const Model& model, const Batch& batch) {
  if constexpr (requires { model.hidden(ctx, {}); }) return model(ctx, {.ids = batch.ids, .lengths = batch.lengths});
  else if constexpr (requires { model.pool(ctx, {}); }) return model(ctx, {.ids = batch.ids, .lengths = batch.lengths});
  else
    return model(
        ctx,
        {.source = batch.ids, .source_lengths = batch.lengths, .target = batch.ids, .target_lengths = batch.lengths});
}

/// Outputs and the gradient of Σ y² over the tokens that count.
template <class Model>
struct FamilyRun {
  using T = typename Model::T;
  Tensor<T, 3> outputs;
  Model gradient;

  FamilyRun(const Model& model, const Batch& batch, const Threads& threads) : gradient(zeros_like(model)) {
    Context ctx(threads);
    Tape tape;
    ctx.tape = &tape;
    tape.watch(model, gradient);
    const auto y = run_family(ctx, model, batch);
    outputs = Tensor<T, 3>(y);
    Tensor<T, 3> slope(y.shape());
    for (Index b = 0; b < y.extent(0); ++b)
      for (Index n = 0; n < batch.lengths(b); ++n)
        for (Index j = 0; j < y.extent(2); ++j) slope(b, n, j) = 2 * y(b, n, j);
    backward(ctx, y, slope);
  }
};

/// Full passes over the prefixes of sequences of different lengths, and the same from a state: token by token, in any
/// pieces, with any company, after forks, reorderings and drops.
template <class Model>
void check_cached(const Model& model) {
  constexpr Index longest = 80;
  const auto ids = random_ids(Shape{3, longest}, 0, family_vocabulary, 3),
             source = random_ids(Shape{3, Index{9}}, 0, family_vocabulary, 4);
  const Tensor<Index, 1> source_lengths = lengths({9, 4, 7});
  Context ctx;
  constexpr bool decodes_only = requires { model.start(); };
  const auto whole = [&] {
    if constexpr (decodes_only) return model.hidden(ctx, {.ids = ids});
    else return model.decode(ctx, ids, model.encode(ctx, source, source_lengths), source_lengths);
  }();
  const auto start = [&] {
    if constexpr (decodes_only) return model.start(3);
    else return model.start(ctx, source, source_lengths);
  };
  auto state = start();
  std::vector<Index> who{0, 1, 2};  // sequence i is a beginning of ids[who[i]]
  const auto next = [&](const std::vector<Index>& counts) {
    std::vector<Id> tokens;
    std::vector<Index> first;
    for (std::size_t i = 0; i < who.size(); ++i) {
      first.push_back(state.length(static_cast<Index>(i)));
      tokens.insert(tokens.end(), &ids(who[i], first[i]), &ids(who[i], first[i]) + counts[i]);
    }
    const auto part = model.hidden(ctx, {tokens, counts}, state);
    Index row = 0;
    for (std::size_t i = 0; i < who.size(); row += counts[i++])
      ASSERT_TRUE(identical(part[0].slice(0, row, counts[i]), whole[who[i]].slice(0, first[i], counts[i])))
          << "sequence " << who[i] << " from " << first[i];
  };
  const auto select = [&](const std::vector<Index>& which) {
    state.select(which);
    std::vector<Index> chosen;
    for (const Index i : which) chosen.push_back(who[static_cast<std::size_t>(i)]);
    who = chosen;
  };
  next({1, 5, 0});
  next({13, 1, 2});
  auto copy = state;
  const auto owners = who;
  select({2, 0, 0, 1, 2});  // forks
  next({1, 1, 7, 30, 3});
  next({33, 1, 1, 1, 1});
  select({3, 1, 0});
  next({80 - state.length(0), 1, 2});
  select({1});
  next({1});
  state = copy;  // what was shared has not changed
  who = owners;
  next({66, 3, 17});
}

template <class T, int Rank>
bool finite(ConstView<T, Rank> x) {
  return std::all_of(x.data(), x.data() + x.size(), [](T value) { return std::isfinite(value); });
}

/// Numbers, lists and shapes that a caller may get wrong; the same on every run.
class Strange {
 public:
  explicit Strange(std::uint64_t seed) : random_(seed, 0) {}

  Index below(Index count) { return static_cast<Index>(random_.uniform() * static_cast<double>(count)); }
  bool one_in(Index count) { return below(count) == 0; }
  /// Mostly in 0…limit.
  Index number(Index limit) {
    constexpr Index most = (std::numeric_limits<Index>::max)();
    constexpr Index others[] = {-1,
                                1,
                                79,
                                80,
                                81,
                                100000,
                                most / 2,
                                most - 3,
                                most,
                                -most - 1,
                                Index{1} << 31,
                                Index{1} << (sizeof(Index) * 6 - 3)};
    return one_in(8) ? others[below(std::size(others))] : below(limit + 1);
  }
  /// Mostly so many.
  Index count(Index usual) { return one_in(10) ? below(usual + 3) : usual; }
  std::vector<Index> numbers(Index usual, Index limit) {
    std::vector<Index> list(static_cast<std::size_t>(count(usual)));
    for (Index& number : list) number = this->number(limit);
    return list;
  }
  Tensor<Id, 2> ids(Index rows, Index columns) {
    Tensor<Id, 2> list(Shape{rows, columns});
    for (Index i = 0; i < list.size(); ++i)
      list.data()[i] = static_cast<Id>(one_in(200) ? number(1) : below(family_vocabulary));
    return list;
  }

 private:
  RandomSequence random_;
};

/// A call of which every part may be absent, of the wrong size, or full of wrong numbers; logits or hidden states.
template <class Model>
ConstView<typename Model::T, 3> call_strangely(Context& ctx, const Model& model, Strange& any) {
  const Index batch = any.below(4), tokens = any.below(6);
  const auto ids = any.ids(batch, tokens), types = any.ids(any.count(batch), tokens),
             target = any.ids(any.count(batch), any.below(6));
  const auto lengths = any.numbers(batch, tokens), target_lengths = any.numbers(batch, target.extent(1)),
             prefixes = any.numbers(batch, tokens);
  Tensor<Index, 2> given(Shape{any.count(batch), any.count(tokens)});
  for (Index i = 0; i < given.size(); ++i) given.data()[i] = any.number(79);
  Tensor<bool, 2> allowed(Shape{any.count(tokens), any.count(tokens)});
  for (Index i = 0; i < allowed.size(); ++i) allowed.data()[i] = any.one_in(2);
  const auto maybe = [&](auto x, Index chance) { return any.one_in(chance) ? x : decltype(x)(); };
  const ConstView<Id, 2> some_ids = any.one_in(30) ? ConstView<Id, 2>() : ids.view(),
                         some_target = any.one_in(30) ? ConstView<Id, 2>() : target.view();
  const auto some_lengths = maybe(ConstView<Index, 1>(lengths), 2),
             some_target_lengths = maybe(ConstView<Index, 1>(target_lengths), 2);
  const Positions positions{.first = any.one_in(3) ? any.number(70) : 0, .given = maybe(given.view(), 3)};
  if constexpr (requires { model.hidden(ctx, {}); }) {
    Allowed further;
    if (any.one_in(4)) further = allowed.view();
    return model(ctx, {.ids = some_ids,
                       .lengths = some_lengths,
                       .positions = positions,
                       .prefixes = maybe(ConstView<Index, 1>(prefixes), 3),
                       .allowed = further});
  } else if constexpr (requires { model.pool(ctx, {}); }) {
    return model(ctx,
                 {.ids = some_ids, .types = maybe(types.view(), 8), .lengths = some_lengths, .positions = positions});
  } else {
    return model(ctx, {.source = some_ids,
                       .source_lengths = some_lengths,
                       .target = some_target,
                       .target_lengths = some_target_lengths});
  }
}

/// Whatever the numbers are: finite results and gradients, or an Error after which all is as before.
template <class Model>
void check_strange_calls(const Model& model) {
  Strange any(1);
  Model gradient = zeros_like(model);
  Context ctx;
  Tape tape;
  const Batch good(2, 4);
  const Tensor<typename Model::T, 3> expected(run_family(ctx, model, good));
  int worked = 0, refused = 0;
  for (int round = 0; round < 400; ++round) {
    ctx.reset();
    ctx.tape = any.one_in(4) ? &tape : nullptr;
    tape.forget();
    tape.watch(model, gradient, Tape::Start::overwrite);
    try {
      const auto y = call_strangely(ctx, model, any);
      ASSERT_TRUE(finite(y)) << "round " << round;
      if (ctx.tape && y.size() > 0) {
        Tensor<typename Model::T, 3> slope(y.shape());
        std::fill_n(slope.data(), slope.size(), 1);
        backward(ctx, y, slope);
        walk([&](const std::string& path, const Leaf&,
                 const auto& part) { EXPECT_TRUE(finite(part.view())) << path << " in round " << round; },
             std::as_const(gradient));
      }
      ++worked;
    } catch (const Error&) {
      ++refused;
    }
    if (round % 40 == 0) {
      EXPECT_TRUE(identical(run_family(ctx, model, good), expected.view()));
    }
  }
  EXPECT_GT(worked, 50);
  EXPECT_GT(refused, 50);
}

/// The same from a state, which is as it was after an Error.
template <class Model>
void check_strange_steps(const Model& model) {
  Strange any(2);
  Context ctx;
  int worked = 0, refused = 0;
  for (int round = 0; round < 60; ++round) {
    ctx.reset();
    try {
      const Index sequences = any.below(4);
      const auto source = any.ids(sequences, any.below(6));
      const auto lengths = any.numbers(sequences, source.extent(1));
      auto state = [&] {
        if constexpr (requires { model.start(); }) return model.start(any.one_in(10) ? -any.below(5) : sequences);
        else return model.start(ctx, source, any.one_in(2) ? ConstView<Index, 1>(lengths) : ConstView<Index, 1>());
      }();
      for (int step = 0; step < 8; ++step) {
        const auto counts = any.numbers(state.sequences(), any.one_in(5) ? 40 : 3);
        Index total = 0;
        for (const Index count : counts) total += std::clamp(count, Index{0}, Index{50});
        const auto ids = any.ids(1, any.count(total));
        std::vector<Index> before;
        for (Index s = 0; s < state.sequences(); ++s) before.push_back(state.length(s));
        try {
          const auto wanted = any.numbers(state.sequences(), any.one_in(2) ? 1 : 4);
          const NextTokens tokens{{ids.data(), static_cast<std::size_t>(ids.size())},
                                  counts,
                                  any.one_in(3) ? std::span<const Index>(wanted) : std::span<const Index>()};
          const bool good =
              any.one_in(3) ? finite(model.next_logits(ctx, tokens, state)) : finite(model.hidden(ctx, tokens, state));
          ASSERT_TRUE(good) << "step " << step << " of round " << round;
          for (std::size_t s = 0; s < counts.size(); ++s)
            ASSERT_EQ(state.length(static_cast<Index>(s)), before[s] + counts[s]);
          ++worked;
          if (any.one_in(3)) state.truncate(any.one_in(2) ? any.numbers(state.sequences(), 4) : before);
          if (any.one_in(3)) state.select(any.numbers(any.below(4), state.sequences() - 1));
        } catch (const Error&) {
          ++refused;
          ASSERT_EQ(state.sequences(), static_cast<Index>(before.size()));
        }
      }
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(worked, 50);
  EXPECT_GT(refused, 50);
}

struct Family {
  std::string name;
  std::function<void()> check_gradient, check_threads, check_cache, check_batch, check_strange;

  friend void PrintTo(const Family& family, std::ostream* out) { *out << family.name; }
};

template <template <class> class Model, class Config>
Family family_of(std::string name, Config config, std::vector<std::string> constant = {}) {
  constant.push_back("pooler.weight");
  constant.push_back("pooler.bias");
  return {std::move(name),
          [=] {
            Model<double> model(config);
            randomize(model, 1);
            const Batch batch(2, 4);
            check_gradients(
                std::move(model), {},
                [&](Context& ctx, const auto& m, const Inputs&) { return run_family(ctx, m, batch); }, constant);
          },
          [=] {
            Model<float> model(config);
            randomize(model, 1);
            const Batch batch(5, 80);
            const FamilyRun<Model<float>> alone(model, batch, Threads());
            for (const int threads : {2, 3, 8}) {
              const FamilyRun<Model<float>> together(model, batch, Threads(threads));
              EXPECT_TRUE(identical(alone.outputs.view(), together.outputs.view())) << threads << " threads";
              expect_identical_models(alone.gradient, together.gradient);
            }
          },
          [=] {
            if constexpr (requires { typename Model<float>::State; }) {
              Model<float> model(config);
              randomize(model, 1);
              check_cached(model);
            }
          },
          [=] {
            Model<float> model(config);
            randomize(model, 1);
            const Batch batch(5, 80);
            Context ctx;
            const auto together = run_family(ctx, model, batch);
            for (Index b = 0; b < 5; ++b) {
              const auto alone = run_family(ctx, model, Batch(batch, b));
              EXPECT_TRUE(identical(together[b].slice(0, 0, batch.lengths(b)), alone[0])) << "sequence " << b;
            }
          },
          [=] {
            Model<float> model(config);
            randomize(model, 1);
            check_strange_calls(model);
            if constexpr (requires { typename Model<float>::State; }) check_strange_steps(model);
          }};
}

/// An encoder with a head on top; lengths make the mean a matter of each sequence.
template <class T>
struct Classifier {
  using Scalar = T;
  Bert<T> bert;
  ClassificationHead<T> head;
  explicit Classifier(const Bert<>::Config& config) : bert(config), head(config.block.width, 3, Pooling::mean) {}
  static void visit(auto&& f, auto&... m) {
    f("bert", m.bert...);
    f("head", m.head...);
  }
};

struct Masked {
  Bert<double> bert;
  MaskedLanguageHead<double> head;
  explicit Masked(const Bert<>::Config& config) : bert(config), head(config.block.width, config.vocabulary) {}
  static void visit(auto&& f, auto&... m) {
    f("bert", m.bert...);
    f("head", m.head...);
  }
};

TEST(Heads, DerivativesMatchDifferences) {
  Bert<>::Config config = small_bert();
  config.pooler = false;
  const Batch batch(2, 4);
  Classifier<double> classifier(config);
  randomize(classifier, 1);
  check_gradients(classifier, {},
                  [&](Context& ctx, const auto& m, const Inputs&) {
                    return m.head(ctx, run_family(ctx, m.bert, batch), batch.lengths);
                  },
                  {"key.bias"});
  Masked masked(config);
  randomize(masked, 1);
  check_gradients(masked, {},
                  [&](Context& ctx, const auto& m, const Inputs&) {
                    return m.head(ctx, run_family(ctx, m.bert, batch), m.bert.embedding);
                  },
                  {"key.bias"});
}

// Empty axes have derivatives too: nothing of a source without tokens.
TEST(EmptyAxes, TrainToo) {
  using Model = EncoderDecoder<PostNorm<double>>;
  Model model(small_pair<PaperModel>([](auto&) {})), gradient = zeros_like(model);
  randomize(model, 1);
  const Tensor<Id, 2> source(Shape{2, 0}), target(Shape{2, 3});
  Context ctx;
  Tape tape;
  ctx.tape = &tape;
  tape.watch(model, gradient);
  const auto loss = op::cross_entropy(ctx, model(ctx, {.source = source, .target = target}), target.view());
  backward(ctx, loss.sum, 1.0);
  EXPECT_GT(magnitude(gradient.embedding.weight), 0);
  EXPECT_EQ(magnitude(gradient.encoder.blocks[0].feed_forward.up.weight), 0);
}

// The mean of what counts, by hand.
TEST(Heads, MeanPooling) {
  Tensor<float, 3> x(Shape{2, 3, 2});
  for (Index i = 0; i < 12; ++i) x.data()[i] = static_cast<float>(i);
  Context ctx;
  const auto y = op::mean_pool<float>(ctx, x, lengths({3, 1}));
  EXPECT_FLOAT_EQ(y(0, 0, 0), 2);
  EXPECT_FLOAT_EQ(y(0, 0, 1), 3);
  EXPECT_FLOAT_EQ(y(1, 0, 0), 6);
}

// Padding on the left, with positions that say so, computes what each sequence does alone.
template <class Model>
void expect_left_padding_harmless(const typename Model::Config& config) {
  Model model(config);
  randomize(model, 1);
  const auto ids = random_ids(Shape{2, 5}, 0, family_vocabulary, 4);
  Tensor<Index, 2> positions(Shape{2, 5});
  Tensor<bool, 4> keep(Shape{2, 1, 1, 5});
  for (Index n = 0; n < 5; ++n) {
    positions(0, n) = n < 2 ? 0 : n - 2;
    positions(1, n) = n;
    keep(0, 0, 0, n) = n >= 2;
    keep(1, 0, 0, n) = true;
  }
  Context ctx;
  const auto padded = model(ctx, {.ids = ids, .positions = {.given = positions}, .allowed = keep.view()});
  const auto alone = model(ctx, {.ids = Tensor<Id, 2>(ids.view().slice(0, 0, 1).slice(1, 2, 3))}),
             full = model(ctx, {.ids = Tensor<Id, 2>(ids.view().slice(0, 1, 1))});
  for (Index v = 0; v < family_vocabulary; ++v) {
    for (Index n = 0; n < 3; ++n) EXPECT_NEAR(padded(0, n + 2, v), alone(0, n, v), 1e-5);
    for (Index n = 0; n < 5; ++n) EXPECT_NEAR(padded(1, n, v), full(0, n, v), 1e-5);
  }
}

// Frequencies that depend on the length depend on that of each sequence, whatever padding follows.
TEST(RotaryPadding, IsHarmless) {
  for (const auto& scaling : {decltype(RotaryConfig::scaling)(DynamicNtkScaling{4, 8}),
                              decltype(RotaryConfig::scaling)(LongScaling{{1, 1}, {2, 3}, 8, 32})}) {
    Llama<float> model(small_llama([&](auto& c) { c.position.scaling = scaling; }));
    randomize(model, 1);
    const auto ids = random_ids(Shape{2, 16}, 0, family_vocabulary, 4);
    Context ctx;
    const auto padded = model(ctx, {.ids = ids, .lengths = lengths({6, 16})});
    const auto alone = model(ctx, {.ids = Tensor<Id, 2>(ids.view().slice(0, 0, 1).slice(1, 0, 6))});
    EXPECT_TRUE(identical(padded[0].slice(0, 0, 6), alone[0]));
  }
}

// The lengths are read before attention sees them.
TEST(RotaryPadding, StrangeLengthsAreErrors) {
  for (const auto& scaling : {decltype(RotaryConfig::scaling)(DynamicNtkScaling{4, 8}),
                              decltype(RotaryConfig::scaling)(LongScaling{{1, 1}, {2, 3}, 8, 32})}) {
    Llama<float> model(small_llama([&](auto& c) { c.position.scaling = scaling; }));
    randomize(model, 1);
    const auto ids = random_ids(Shape{2, 16}, 0, family_vocabulary, 4);
    Context ctx;
    const auto refused = [&](std::vector<Index> lengths) {
      return error_of([&] { model(ctx, {.ids = ids, .lengths = lengths}); });
    };
    EXPECT_EQ(refused({2, 100000}), "[rotary] key length 100000 of sequence 1 is not in 0…16");
    EXPECT_EQ(refused({2}), "[rotary] 1 key lengths for a batch of 2");
    EXPECT_EQ(refused({2, Index{1} << (sizeof(Index) * 6 - 3)}).substr(0, 21), "[rotary] key length 3");
    EXPECT_EQ(refused({}), "[rotary] 0 key lengths for a batch of 2");
    check_strange_calls(model);
  }
}

/// Prompts of 3 and 5 tokens, then three steps: their tokens stand at 0, 1, 2, then 3, 4, 5, and at 0 … 4, then 5,
/// 6, 7.
template <class Model>
void expect_own_positions(const typename Model::Config& config) {
  Model model(config);
  randomize(model, 1);
  const auto ids = random_ids(Shape{2, 8}, 0, family_vocabulary, 4);
  Context ctx;
  auto state = model.start(2);
  std::vector<Id> next;
  const std::vector<Index> prompts{3, 5}, ones{1, 1};
  for (Index b = 0; b < 2; ++b) next.insert(next.end(), &ids(b, 0), &ids(b, 0) + prompts[static_cast<std::size_t>(b)]);
  auto logits = model.next_logits(ctx, {next, prompts}, state);
  for (Index step = 0;; ++step) {
    for (Index b = 0; b < 2; ++b) {
      const Index length = prompts[static_cast<std::size_t>(b)] + step;
      ASSERT_EQ(state.length(b), length);
      const auto alone = model(ctx, {.ids = Tensor<Id, 2>(ids.view().slice(0, b, 1).slice(1, 0, length))});
      EXPECT_TRUE(identical(logits[b], alone[0][length - 1])) << "sequence " << b << ", step " << step;
    }
    if (step == 3) break;
    next = {ids(0, 3 + step), ids(1, (5 + step) % 8)};
    logits = model.next_logits(ctx, {next, ones}, state);
  }
}

TEST(LeftPadding, IsHarmless) {
  expect_left_padding_harmless<Gpt2<float>>(small_decoder<Gpt2>());
  expect_left_padding_harmless<Llama<float>>(small_llama());
}
TEST(LeftPadding, IsNotNeeded) {
  expect_own_positions<Gpt2<float>>(small_decoder<Gpt2>());
  expect_own_positions<Llama<float>>(small_llama());
}

class EveryFamily : public testing::TestWithParam<Family> {};
TEST_P(EveryFamily, DerivativeMatchesDifferences) { GetParam().check_gradient(); }
TEST_P(EveryFamily, SameBitsOnAnyThreads) { GetParam().check_threads(); }
TEST_P(EveryFamily, SameBitsFromACache) { GetParam().check_cache(); }
TEST_P(EveryFamily, SameBitsInAnyBatch) { GetParam().check_batch(); }
TEST_P(EveryFamily, StrangeInputsAreErrors) { GetParam().check_strange(); }

// clang-format off
INSTANTIATE_TEST_SUITE_P(, EveryFamily, testing::Values(
    family_of<Gpt2>("Gpt2", small_decoder<Gpt2>(), {"key.bias"}),
    family_of<Llama>("Llama", small_llama()),
    family_of<Llama>("LlamaInterleavedPartRotary", small_llama([](auto& c) { c.position = {.rotated = 2, .layout = RotaryLayout::interleaved}; })),
    family_of<Llama>("LlamaYarn", small_llama([](auto& c) { c.position.scaling = YarnScaling{.factor = 4, .original = 16}; })),
    family_of<Mistral>("Mistral", small_llama([](auto& c) { c.block.attention.window = 3; })),
    family_of<Qwen2>("Qwen2", small_llama([](auto& c) { c.block.attention.bias = true; c.block.attention.output_bias = false; c.tied = true; })),
    family_of<Qwen3>("Qwen3", small_llama<Qwen3>([](auto& c) { c.tied = true; })),
    family_of<Gemma2>("Gemma2", small_llama<Gemma2>([](auto& c) { c.block.attention.scores.cap = 2; c.logit_cap = 3; c.tied = c.scaled_embedding = true; c.each_layer.assign(2, c.block); c.each_layer[0].attention.window = 3; })),
    family_of<Phi2>("Phi2", small_decoder<Phi2>([](auto& c) { c.position.rotated = 2; c.tied = false; c.head_bias = true; })),
    family_of<Bloom>("Bloom", small_decoder<Bloom>([](auto& c) { c.embedding_norm = true; }), {"key.bias"}),
    family_of<Bert>("Bert", small_bert(), {"key.bias"}),
    family_of<Roberta>("Roberta", small_bert(), {"key.bias"}),
    family_of<PaperModel>("Paper", small_pair<PaperModel>([](auto& c) { c.sharing = Sharing::none; }), {"key.bias"}),
    family_of<T5>("T5", small_t5<T5>()),
    family_of<T5v11>("T5v11", small_t5<T5v11>()),
    family_of<Bart>("Bart", small_pair<Bart>([](auto& c) { c.embedding_norm = true; c.scaled_embedding = false; }), {"key.bias"})
), [](const auto& family) { return family.param.name; });
// clang-format on

}  // namespace
}  // namespace eigenformer::test
