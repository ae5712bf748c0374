// Results do not depend on the number of threads, whose they are, or whether anything is recorded: not even in a bit.
#include "eigenformer/core/threads.hpp"

#include <atomic>
#include <cstddef>
#include <functional>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "eigenformer/model/encoder_decoder.hpp"
#include "eigenformer/op/weight.hpp"
#include "eigenformer/train/trainer.hpp"
#include "support/tensors.hpp"

namespace eigenformer::test {
namespace {

using Model = EncoderDecoder<PostNorm<float>>;

/// A batch that is cut into several pieces by all kernels: 560 rows, more than 64 columns, matrices of more than 16384
/// weights.
class Bits : public testing::Test {
 protected:
  Bits()
      : model(EncoderDecoder<>::Config{.source_vocabulary = 300,
                                       .target_vocabulary = 300,
                                       .encoder_layers = 1,
                                       .decoder_layers = 1,
                                       .block = {.width = 72, .hidden = 256, .heads = 4, .dropout = 0.1}}) {
    randomize(model, 1);
  }

  EncoderDecoderCall call() const { return {source, source_lengths, target, target_lengths}; }

  Tensor<float, 3> logits(const Threads& threads) const {
    Context ctx(threads);
    return Tensor<float, 3>(model(ctx, call()));
  }

  struct Training {
    std::vector<double> losses;
    Model gradient, weights, first_moment, second_moment;
  };

  /// The gradient of a batch, with dropout, and what becomes of everything after two steps.
  Training train(const Threads& threads) const {
    Trainer trainer(model, {.learning_rate = ConstantRate{0.01}, .clip = 1.0, .seed = 5}, threads);
    const auto loss = [&](Context& ctx, const Model& m) {
      return op::cross_entropy(ctx, m(ctx, call()), labels, {.smoothing = 0.1, .ignore = 0});
    };
    trainer.accumulate(loss);
    Model gradient = trainer.gradient();
    std::vector<double> losses{trainer.step().loss};
    trainer.accumulate(loss);
    losses.push_back(trainer.step().loss);
    return {std::move(losses), std::move(gradient), trainer.model, trainer.optimiser.first_moment,
            trainer.optimiser.second_moment};
  }

  static void expect_identical(const Training& a, const Training& b) {
    EXPECT_EQ(a.losses, b.losses);
    expect_identical_models(a.gradient, b.gradient);
    expect_identical_models(a.weights, b.weights);
    expect_identical_models(a.first_moment, b.first_moment);
    expect_identical_models(a.second_moment, b.second_moment);
  }

  Model model;
  const Tensor<Id, 2> source = random_ids(Shape{8, 70}, 1, 300, 2), target = random_ids(Shape{8, 70}, 1, 300, 3),
                      labels = random_ids(Shape{8, 70}, 0, 300, 4);
  const Tensor<Index, 1> source_lengths = lengths({70, 33, 64, 5, 69, 1, 50, 32}),
                         target_lengths = lengths({40, 70, 1, 65, 33, 32, 9, 70});
};

TEST_F(Bits, OfTheForwardPassAreTheSameOnAnyNumberOfThreads) {
  const auto serial = logits(Threads());
  EXPECT_GT(magnitude(serial), 0);
  EXPECT_TRUE(identical(logits(Threads(2)), serial));
  EXPECT_TRUE(identical(logits(Threads(3)), serial));
}

TEST_F(Bits, OfTrainingAreTheSameOnAnyNumberOfThreads) {
  const Training serial = train(Threads());
  EXPECT_GT(magnitude(serial.gradient.embedding.weight), 0);
  EXPECT_FALSE(identical(serial.weights.embedding.weight, model.embedding.weight));
  expect_identical(train(Threads(2)), serial);
  expect_identical(train(Threads(3)), serial);
}

/// Counts the work that it is given.
class CountingPool : public Eigen::ThreadPool {
 public:
  using Eigen::ThreadPool::ThreadPool;
  void Schedule(std::function<void()> work) override {
    ++scheduled;
    Eigen::ThreadPool::Schedule(std::move(work));
  }
  std::atomic<int> scheduled = 0;
};

TEST_F(Bits, AreTheSameOnTheUsersPool) {
  CountingPool pool(2);
  EXPECT_EQ(Threads(pool).count(), 3);
  EXPECT_TRUE(identical(logits(Threads(pool)), logits(Threads())));
  EXPECT_GT(pool.scheduled, 0);
  expect_identical(train(Threads(pool)), train(Threads()));
}

// A model that nobody changes is read by any number of threads, each with a context of its own: packed or not, with a
// pool of threads that they share, from caches, and for gradients.
TEST_F(Bits, AreTheSameInThreadsThatShareAModel) {
  const Model& shared = model;
  const Threads pool(2);
  const auto expected = logits(Threads());
  struct Results {
    Tensor<float, 3> logits;
    Tensor<float, 2> next;
    std::optional<Model> gradient;
  };
  const auto work = [&](const Threads& threads) {
    Results results;
    Context ctx(threads);
    results.logits = Tensor<float, 3>(shared(ctx, call()));
    auto state = shared.start(ctx, source, source_lengths);
    const std::vector<Index> counts(8, 3);
    const Tensor<Id, 2> ids(target.view().slice(1, 0, 3));
    results.next = Tensor<float, 2>(shared.next_logits(ctx, {{ids.data(), 24}, counts}, state));
    ctx.reset();
    Tape tape;
    ctx.tape = &tape;
    results.gradient = zeros_like(shared);
    tape.watch(shared, *results.gradient);
    backward(ctx, op::cross_entropy(ctx, shared(ctx, call()), labels).sum, 1.0);
    return results;
  };
  const Results alone = work(Threads());
  EXPECT_TRUE(identical(alone.logits, expected));
  EXPECT_GT(magnitude(alone.gradient->embedding.weight), 0);
  for (const bool packed : {false, true}) {
    if (packed) {
      Context ctx;
      pack(ctx, model);
    }
    std::vector<Results> results(4);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < results.size(); ++i)
      threads.emplace_back([&, i] { results[i] = work(i % 2 == 0 ? pool : Threads()); });
    for (std::thread& thread : threads) thread.join();
    for (const Results& result : results) {
      EXPECT_TRUE(identical(result.logits, expected)) << packed;
      EXPECT_TRUE(identical(result.next, alone.next)) << packed;
      expect_identical_models(*result.gradient, *alone.gradient);
    }
  }
}

TEST_F(Bits, AreTheSameWhenRecorded) {
  const auto run = [&](Tape* tape, Random random, bool dropout) {
    Context ctx;
    ctx.tape = tape;
    if (dropout) ctx.random = &random;
    Tensor<float, 3> y(model(ctx, call()));
    EXPECT_EQ(tape && tape->size() > 0, tape != nullptr);
    return y;
  };
  Tape tape, dropout_tape;
  EXPECT_TRUE(identical(run(&tape, {}, false), run(nullptr, {}, false)));
  EXPECT_TRUE(identical(run(&dropout_tape, {.seed = 3}, true), run(nullptr, {.seed = 3}, true)));
}

TEST_F(Bits, AreTheSameWhenTheContextIsUsedAgain) {
  const auto expected = logits(Threads());
  Context ctx;
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(identical(model(ctx, call()), expected));
    ctx.reset();
  }
}

}  // namespace
}  // namespace eigenformer::test
