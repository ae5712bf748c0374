// Norms of a row of zeros, with and without ε: the output is 0, or the bias, and no derivative is lost.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <vector>

#include "eigenformer/layer/attention/attention.hpp"
#include "eigenformer/layer/norm/layer_norm.hpp"
#include "eigenformer/layer/norm/rms_norm.hpp"
#include "eigenformer/layer/norm/scale_norm.hpp"
#include "support/tensors.hpp"

namespace eigenformer::test {
namespace {

/// Of L = Σ y for y = layer(x), x (1, 2, D) being a row of zeros and another.
struct ZeroRow {
  Tensor<double, 3> y, dx;

  template <class Layer>
  explicit ZeroRow(const Layer& layer, Index width, auto&&... call) {
    Tensor<double, 3> x = random_tensor<double>(Shape{Index{1}, Index{2}, width}, 1);
    std::fill_n(x.data(), width, 0.0);
    dx = Tensor<double, 3>(x.shape());
    Layer slopes = zeros_like(layer);
    Context ctx;
    Tape tape;
    ctx.tape = &tape;
    tape.watch(layer, slopes);
    tape.watch(ConstView<double, 3>(x), dx.view());
    const ConstView<double, 3> output = layer(ctx, ConstView<double, 3>(x), call...);
    y = Tensor<double, 3>(output);
    Tensor<double, 3> ones(output.shape());
    std::fill_n(ones.data(), ones.size(), 1.0);
    backward(ctx, output, ones);
    walk([](const std::string& path, const Leaf&,
            const auto& slope) { EXPECT_TRUE(std::isfinite(magnitude(slope))) << path; },
         slopes);
    for (const auto* each : {&y, &dx})
      for (Index i = 0; i < each->size(); ++i) EXPECT_TRUE(std::isfinite(each->data()[i]));
    EXPECT_GT(magnitude(y), 0) << "the other row";
  }
};

template <class Norm, class Config>
Norm zero_row_norm(Config config, std::optional<double> epsilon) {
  if (epsilon) config.epsilon = *epsilon;
  Norm norm(config);
  randomize(norm, 2);
  return norm;
}

TEST(ZeroRowTest, RmsNorm) {
  for (const std::optional<double> epsilon : {std::optional<double>(), std::optional(0.0)}) {
    const auto norm = zero_row_norm<RmsNorm<double>>(RmsNormConfig{6}, epsilon);
    const ZeroRow row(norm, 6);
    for (Index j = 0; j < 6; ++j) {
      EXPECT_EQ(row.y(0, 0, j), 0);
      EXPECT_NEAR(row.dx(0, 0, j), epsilon ? 0 : 1000 * norm.weight(j), 1e-9) << "1/√ε";
    }
  }
}

TEST(ZeroRowTest, LayerNorm) {
  for (const std::optional<double> epsilon : {std::optional<double>(), std::optional(0.0)}) {
    const auto norm = zero_row_norm<LayerNorm<double>>(LayerNormConfig{6}, epsilon);
    const ZeroRow row(norm, 6);
    for (Index j = 0; j < 6; ++j) {
      EXPECT_EQ(row.y(0, 0, j), norm.bias(j));
      EXPECT_TRUE(!epsilon || row.dx(0, 0, j) == 0);
    }
  }
}

TEST(ZeroRowTest, ScaleNorm) {
  for (const std::optional<double> epsilon : {std::optional<double>(), std::optional(0.0)}) {
    const ZeroRow row(zero_row_norm<ScaleNorm<double>>(ScaleNormConfig{6}, epsilon), 6);
    for (Index j = 0; j < 6; ++j) {
      EXPECT_EQ(row.y(0, 0, j), 0);
      EXPECT_TRUE(!epsilon || row.dx(0, 0, j) == 0);
    }
  }
}

// Its query and key of zeros score 0 with every token: the first row's output is the mean of the values of both, and so
// half of the second's, whose share without biases is all there is.
TEST(ZeroRowTest, QkNorm) {
  for (const std::optional<double> epsilon : {std::optional<double>(), std::optional(0.0)}) {
    using Layer = Attention<double, QkNorm<double, RmsNorm<double>, PlainHeads<double>>>;
    Layer::Config config{.width = 6, .heads = 2, .bias = false};
    if (epsilon) config.per_head.norm.epsilon = *epsilon;
    Layer attention(config);
    randomize(attention, 2);
    const ZeroRow both(attention, 6), causal(attention, 6, AttentionCall<double>{.mask = {.causal = true}});
    for (Index j = 0; j < 6; ++j) EXPECT_EQ(causal.y(0, 0, j), 0) << "it sees itself alone";
    EXPECT_GT(std::abs(both.y(0, 0, 0)), 0);
  }
}

}  // namespace
}  // namespace eigenformer::test
