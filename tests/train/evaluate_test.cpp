#include "eigenformer/train/evaluate.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "support/error.hpp"
#include "support/tensors.hpp"

namespace eigenformer::test {
namespace {

/// Logits (1, N, 3) and what they ought to say.
struct Guesses {
  Tensor<double, 2> logits;
  Tensor<Id, 2> targets;
};

const auto guess = [](Context&, int, const Guesses& batch) {
  return std::pair(batch.logits.view().reshape(Shape{Index{1}, batch.logits.extent(0), Index{3}}),
                   batch.targets.view());
};

// Probabilities ½, ¼, ¼ of the classes: −log ½ for a right guess, −log ¼ for a wrong one. Of equals the first is the
// guess.
TEST(Evaluate, IsTheMeanOverAllTokens) {
  const double half = std::log(2.0);
  const std::vector<Guesses> batches{
      {matrix<double>({{half, 0, 0}}), matrix<Id>({{0}})},
      {matrix<double>({{0, half, 0}, {0, 0, half}, {9, 9, 9}}), matrix<Id>({{0, 2, -100}})},
      {matrix<double>({{5, 5, 5}}), matrix<Id>({{1}})}};
  Context ctx;
  const Evaluation result = evaluate(ctx, 0, batches, guess);
  EXPECT_EQ(result.tokens, 4);
  EXPECT_NEAR(result.loss, (half + 2 * half + half + std::log(3.0)) / 4, 1e-15);
  EXPECT_NEAR(result.perplexity(), std::pow(2 * 4 * 2 * 3, 0.25), 1e-14);
  EXPECT_EQ(result.accuracy, 0.5);
}

TEST(Evaluate, OfNothing) {
  Context ctx;
  const Evaluation none = evaluate(ctx, 0, std::vector<Guesses>(), guess),
                   ignored = evaluate(ctx, 0, std::vector<Guesses>{{matrix<double>({{1, 2, 3}}), matrix<Id>({{7}})}},
                                      guess, 7);
  for (const Evaluation& result : {none, ignored}) {
    EXPECT_EQ(result.tokens, 0);
    EXPECT_EQ(result.loss, 0);
    EXPECT_EQ(result.accuracy, 0);
  }
}

TEST(Evaluate, NeedsAContextOfItsOwn) {
  Context ctx;
  Tape tape;
  ctx.tape = &tape;
  EXPECT_EQ(error_of([&] { evaluate(ctx, 0, std::vector<Guesses>(), guess); }),
            "[evaluate] evaluation is neither recorded nor with dropout: it needs a context of its own");
}

}  // namespace
}  // namespace eigenformer::test
