// What does not fit is refused at the entry of an op, with place and numbers, before anything happens.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "eigenformer/op/attention.hpp"
#include "eigenformer/op/cross_entropy.hpp"
#include "eigenformer/op/dropout.hpp"
#include "eigenformer/op/embedding.hpp"
#include "eigenformer/op/linear.hpp"
#include "eigenformer/op/norm.hpp"
#include "support/error.hpp"

using namespace eigenformer;
using test::error_of;

namespace {

struct BadInput : ::testing::Test {
  Context ctx;
  Tape tape;
  Random random{.seed = 1};

  BadInput() {
    ctx.tape = &tape;
    ctx.random = &random;
  }

  /// f() throws this, and neither memory nor tape nor random stream has moved.
  void expect_refused(auto&& f, const std::string& text) {
    const auto mark = ctx.arena.mark();
    const Index recorded = tape.size();
    const auto site = random.next_site;
    EXPECT_EQ(error_of(f), text);
    EXPECT_EQ(ctx.arena.mark().block, mark.block);
    EXPECT_EQ(ctx.arena.mark().used, mark.used);
    EXPECT_EQ(tape.size(), recorded);
    EXPECT_EQ(random.next_site, site);
  }
};

ConstView<Id, 2> as_row(const std::vector<Id>& ids) { return {ids.data(), {1, static_cast<Index>(ids.size())}}; }

using Tensor2 = Tensor<float, 2>;
using Tensor3 = Tensor<float, 3>;
using Tensor4 = Tensor<float, 4>;

}  // namespace

TEST_F(BadInput, IdsOutsideTheTable) {
  const Tensor2 table(Shape{5, 2});
  const std::vector<Id> negative{0, -1, 2}, large{4, 5};
  expect_refused([&] { op::embedding(ctx, as_row(negative), table.view()); },
                 "[embedding] id -1 in row 0, column 1 of (1, 3) is not in the vocabulary of 5");
  expect_refused([&] { op::embedding(ctx, as_row(large), table.view()); },
                 "[embedding] id 5 in row 0, column 1 of (1, 2) is not in the vocabulary of 5");
}

TEST_F(BadInput, PositionsBeforeTheBeginning) {
  const Tensor3 x(Shape{1, 2, 4});
  expect_refused([&] { op::add_sinusoid(ctx, x.view(), {.first = -3}, 10000); }, "[sinusoid] position -3 is negative");
}

TEST_F(BadInput, PositionsPastTheEnd) {
  constexpr Index last = (std::numeric_limits<Index>::max)();
  const Tensor3 x(Shape{1, 2, 4});
  expect_refused([&] { op::add_sinusoid(ctx, x.view(), {.first = last - 1}, 10000); },
                 "[sinusoid] positions from " + std::to_string(last - 1) + " on are too many for 2 tokens");
  const std::vector<Index> given{0, last};
  expect_refused(
      [&] {
        op::add_sinusoid(ctx, x.view(), {.given = {given.data(), {1, 2}}}, 10000);
      },
      "[sinusoid] position " + std::to_string(last) + " of token 1 in sequence 0 is negative, or too large");
}

TEST_F(BadInput, WidthsThatDoNotFitAWeight) {
  const Tensor3 x(Shape{1, 2, 4});
  const Tensor2 narrow(Shape{3, 5}), weight(Shape{3, 4});
  const Tensor<float, 1> bias(Shape{4});
  expect_refused([&] { op::linear(ctx, x.view(), narrow); },
                 "[linear] input (1, 2, 4) does not fit a weight of (3, 5)");
  expect_refused([&] { op::linear(ctx, x.view(), weight, bias); }, "[linear] bias (4) does not fit a weight of (3, 4)");
}

TEST_F(BadInput, WidthsThatDoNotFitANorm) {
  const Tensor2 x(Shape{2, 4});
  const Tensor<float, 1> three(Shape{3}), four(Shape{4});
  expect_refused([&] { op::layer_norm(ctx, x.view(), three, four, 1e-5); },
                 "[layer_norm] input (2, 4) does not fit a weight of (3) and a bias of (4)");
  expect_refused([&] { op::layer_norm(ctx, x.view(), four, three, 1e-5); },
                 "[layer_norm] input (2, 4) does not fit a weight of (4) and a bias of (3)");
}

TEST_F(BadInput, ResidualsOfAnotherShape) {
  const Tensor2 x(Shape{2, 4}), y(Shape{4, 2});
  expect_refused([&] { op::residual(ctx, x.view(), y.view()); }, "[residual] cannot add (4, 2) to (2, 4)");
}

TEST_F(BadInput, ProbabilitiesOfDropout) {
  const Tensor2 x(Shape{2, 4});
  expect_refused([&] { op::dropout(ctx, x.view(), 1); }, "[dropout] probability 1 is not in [0, 1)");
  expect_refused([&] { op::dropout(ctx, x.view(), -0.5); }, "[dropout] probability -0.5 is not in [0, 1)");
  expect_refused([&] { op::residual(ctx, x.view(), x.view(), 1.5); }, "[dropout] probability 1.5 is not in [0, 1)");
  expect_refused([&] { op::dropout(ctx, x.view(), NAN); }, "[dropout] probability nan is not in [0, 1)");
  ctx.random = nullptr;
  EXPECT_NE(error_of([&] { op::dropout(ctx, x.view(), 1); }), "") << "nor when it is off";
}

TEST_F(BadInput, HeadsThatDoNotFit) {
  const Tensor4 q(Shape{2, 3, 6, 8}), k(Shape{2, 5, 4, 8}), longer(Shape{2, 6, 4, 8}), other_batch(Shape{3, 5, 6, 8}),
      wider(Shape{2, 5, 6, 9}), none(Shape{2, 5, 0, 8});
  const auto attend = [&](const Tensor4& key, const Tensor4& value) {
    return [&] { op::attention(ctx, q.view(), key.view(), value.view(), {}); };
  };
  expect_refused(attend(k, k), "[attention] 4 key-value heads do not divide 6 query heads");
  expect_refused(attend(none, none), "[attention] 0 key-value heads do not divide 6 query heads");
  expect_refused(attend(k, longer),
                 "[attention] queries (2, 3, 6, 8), keys (2, 5, 4, 8) and values (2, 6, 4, 8) do not fit");
  expect_refused(attend(other_batch, other_batch),
                 "[attention] queries (2, 3, 6, 8), keys (3, 5, 6, 8) and values (3, 5, 6, 8) do not fit");
  expect_refused(attend(wider, wider),
                 "[attention] queries (2, 3, 6, 8), keys (2, 5, 6, 9) and values (2, 5, 6, 9) do not fit");
  expect_refused([&] { op::attention(ctx, q.view(), q.view(), q.view(), {.dropout = 1}); },
                 "[dropout] probability 1 is not in [0, 1)");
}

TEST_F(BadInput, MasksThatDoNotFit) {
  const Tensor4 q(Shape{2, 3, 4, 8}), k(Shape{2, 5, 4, 8});
  const auto attend = [&](const Mask& mask) {
    return [&, mask] { op::attention(ctx, q.view(), k.view(), k.view(), {.mask = mask}); };
  };
  const Tensor<bool, 2> turned(Shape{5, 3});
  const Tensor<bool, 3> batch(Shape{3, 3, 5});
  const Tensor<bool, 4> heads(Shape{2, 3, 3, 5});
  const std::string fits = " does not fit scores of (2, 4, 3, 5) (batch, heads, queries, keys)";
  expect_refused(attend({.allowed = turned}), "[attention] a mask of (1, 1, 5, 3)" + fits);
  expect_refused(attend({.allowed = batch}), "[attention] a mask of (3, 1, 3, 5)" + fits);
  expect_refused(attend({.allowed = heads}), "[attention] a mask of (2, 3, 3, 5)" + fits);
  const std::vector<Index> three{1, 2, 3}, long_keys{5, 6}, negative{-1, 5}, long_queries{3, 4};
  expect_refused(attend({.key_lengths = three}), "[attention] 3 key lengths for a batch of 2");
  expect_refused(attend({.key_lengths = long_keys}), "[attention] key length 6 of sequence 1 is not in 0…5");
  expect_refused(attend({.key_lengths = negative}), "[attention] key length -1 of sequence 0 is not in 0…5");
  expect_refused(attend({.query_lengths = three}), "[attention] 3 query lengths for a batch of 2");
  expect_refused(attend({.query_lengths = long_queries}), "[attention] query length 4 of sequence 1 is not in 0…3");
}

TEST_F(BadInput, TargetsOfALoss) {
  const Tensor3 logits(Shape{1, 3, 7});
  const auto loss = [&](std::vector<Id> targets, const CrossEntropyConfig& config = {}) {
    return [&, targets, config] { op::cross_entropy(ctx, logits.view(), as_row(targets), config); };
  };
  expect_refused(
      loss({0, 7, 1}),
      "[cross_entropy] target 7 in row 0, column 1 of (1, 3) is neither a class of 0…6 nor the ignored -100");
  expect_refused(loss({0, 1, -4}, {.ignore = -1}),
                 "[cross_entropy] target -4 in row 0, column 2 of (1, 3) is neither a class of 0…6 nor the ignored -1");
  expect_refused(
      loss({-100, 1, 2}, {.ignore = 0}),
      "[cross_entropy] target -100 in row 0, column 0 of (1, 3) is neither a class of 0…6 nor the ignored 0");
  expect_refused(loss({0, 1}), "[cross_entropy] targets (1, 2) do not fit logits (1, 3, 7)");
  expect_refused(loss({0, 1, 2}, {.smoothing = 1}), "[cross_entropy] smoothing 1 is not in [0, 1)");
  expect_refused(loss({0, 1, 2}, {.smoothing = -0.1}), "[cross_entropy] smoothing -0.1 is not in [0, 1)");
  expect_refused(loss({0, 1, 2}, {.smoothing = NAN}), "[cross_entropy] smoothing nan is not in [0, 1)");
}

TEST_F(BadInput, NothingToLose) {
  const Tensor3 logits(Shape{1, 5, 7});
  const std::vector<Id> ignored(5, -100);
  const Loss loss = op::cross_entropy(ctx, logits.view(), as_row(ignored));
  EXPECT_EQ(loss.sum[0], 0);
  EXPECT_EQ(loss.tokens, 0);
  EXPECT_EQ(loss.mean(), 0) << "not 0/0";
}
