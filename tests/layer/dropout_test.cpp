// Dropout: off without a random stream, and right on average with one.
#include "eigenformer/op/dropout.hpp"

#include "eigenformer/layer/attention/attention.hpp"
#include "support/tensors.hpp"

namespace eigenformer::test {
namespace {

TEST(Dropout, ScalesSurvivorsAndKeepsTheMean) {
  Tensor<float, 2> ones(Shape{1000, 1000});
  std::fill_n(ones.data(), ones.size(), 1.0f);
  Random random{.seed = 1};
  Context ctx;
  ctx.random = &random;
  const auto y = op::dropout(ctx, std::as_const(ones).view(), 0.8);
  double sum = 0;
  for (Index i = 0; i < y.size(); ++i) {
    ASSERT_TRUE(y.data()[i] == 0 || y.data()[i] == 5) << y.data()[i];  // 1/(1 − 0.8)
    sum += static_cast<double>(y.data()[i]);
  }
  const double deviation = std::sqrt(0.8 / 0.2 / 1e6);
  EXPECT_NEAR(sum / 1e6, 1, 4 * deviation);
}

/// As a sublayer's dropout is used: what is dropped is the update, never x.
TEST(Dropout, LeavesTheResidualAlone) {
  const auto x = random_tensor<float>(Shape{20, 30}, 1), update = random_tensor<float>(Shape{20, 30}, 2);
  Random random{.seed = 1};
  Context ctx;
  ctx.random = &random;
  const auto y = op::residual(ctx, std::as_const(x).view(), update, 0.5);
  Index dropped = 0;
  for (Index i = 0; i < y.size(); ++i) {
    const float kept = x.data()[i] + 2 * update.data()[i];
    ASSERT_TRUE(y.data()[i] == x.data()[i] || std::abs(y.data()[i] - kept) <= 1e-6f * (std::abs(kept) + 1));
    dropped += y.data()[i] == x.data()[i];
  }
  EXPECT_NEAR(static_cast<double>(dropped), 300, 4 * std::sqrt(600 * 0.25));
}

/// Attention on a fixed input, with the weights' dropout as given.
class AttentionDropout : public testing::Test {
 protected:
  Tensor<double, 3> attend(double probability, Random* random) const {
    Attention<double> attention(AttentionConfig{.width = 6, .heads = 2, .dropout = probability});
    randomize(attention, 1);
    Context ctx;
    ctx.random = random;
    return Tensor<double, 3>(attention(ctx, random_tensor<double>(Shape{2, 4, 6}, 2)));
  }
};

TEST_F(AttentionDropout, IsOffWithoutARandomStream) {
  EXPECT_TRUE(identical(attend(0.8, nullptr), attend(0, nullptr)));
  EXPECT_TRUE(identical(attend(0.8, nullptr), attend(0.8, nullptr)));
}

TEST_F(AttentionDropout, DependsOnSeedStepAndSiteOnly) {
  const auto run = [&](Random random) { return attend(0.8, &random); };
  const auto y = run({.seed = 1, .step = 1, .next_site = 0});
  EXPECT_TRUE(identical(run({.seed = 1, .step = 1, .next_site = 0}), y));
  EXPECT_FALSE(identical(run({.seed = 2, .step = 1, .next_site = 0}), y));
  EXPECT_FALSE(identical(run({.seed = 1, .step = 2, .next_site = 0}), y));
  EXPECT_FALSE(identical(run({.seed = 1, .step = 1, .next_site = 1}), y));
  EXPECT_FALSE(identical(attend(0.8, nullptr), y));
}

/// The output is linear in the dropped weights, so its mean is the output without dropout.
TEST_F(AttentionDropout, IsRightOnAverage) {
  const auto expected = attend(0, nullptr);
  Tensor<double, 3> sum(expected.shape()), squares(expected.shape());
  const int runs = 2000;
  for (int step = 0; step < runs; ++step) {
    Random random{.seed = 3, .step = static_cast<std::uint32_t>(step)};
    const auto y = attend(0.5, &random);
    sum.matrix() += y.matrix();
    squares.matrix() += y.matrix().cwiseAbs2();
  }
  for (Index i = 0; i < expected.size(); ++i) {
    const double mean = sum.data()[i] / runs, variance = squares.data()[i] / runs - mean * mean;
    EXPECT_GT(variance, 0);
    EXPECT_NEAR(mean, expected.data()[i], 5 * std::sqrt(variance / runs));
  }
}

}  // namespace
}  // namespace eigenformer::test
