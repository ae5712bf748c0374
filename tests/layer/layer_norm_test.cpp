// LayerNorm by hand.
#include "eigenformer/layer/norm/layer_norm.hpp"

#include "support/tensors.hpp"

namespace eigenformer::test {
namespace {

/// The normalised row of the textbook example: mean 1, deviations (1, −2, −1, 2), variance 10/4.
TEST(LayerNorm, OfTheTextbookRow) {
  LayerNorm<float> norm(LayerNormConfig{4});
  std::fill_n(norm.weight.data(), 4, 1.0f);
  Context ctx;
  const auto y = norm(ctx, matrix<float>({{2, -1, 0, 3}}));
  EXPECT_LE(difference(y, matrix<float>({{0.632f, -1.265f, -0.632f, 1.265f}})), 5e-4);
  const float unit = static_cast<float>(1 / std::sqrt(2.5 + 1e-5));
  EXPECT_LE(difference(y, matrix<float>({{unit, -2 * unit, -unit, 2 * unit}})), 2e-7);
}

TEST(LayerNorm, ScalesAndShiftsEachColumn) {
  LayerNorm<double> norm(LayerNormConfig{.width = 4, .epsilon = 0});
  for (Index j = 0; j < 4; ++j) norm.weight(j) = static_cast<double>(j + 1), norm.bias(j) = 10 * static_cast<double>(j);
  Context ctx;
  const double unit = 1 / std::sqrt(2.5);
  EXPECT_LE(difference(norm(ctx, matrix<double>({{2, -1, 0, 3}})),
                       matrix<double>({{unit, 10 - 4 * unit, 20 - 3 * unit, 30 + 8 * unit}})),
            1e-14);
}

}  // namespace
}  // namespace eigenformer::test
