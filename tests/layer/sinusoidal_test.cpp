// Sinusoidal positions: the paper's formula and the two facts it gives reasons with (Vaswani et al. 2017, section 3.5).
#include "eigenformer/layer/position/sinusoidal.hpp"

#include <numbers>

#include "support/tensors.hpp"

namespace eigenformer::test {
namespace {

/// (N, D): the encoding of positions first, first + 1, …
template <class T>
Tensor<T, 2> encoding(Index first, Index tokens, Index width) {
  Context ctx;
  const Tensor<T, 3> zeros(Shape{Index{1}, tokens, width});
  return Tensor<T, 2>(Sinusoidal<T>()(ctx, zeros, first)[0]);
}

TEST(Sinusoidal, InterleavesSineAndCosine) {
  EXPECT_LE(difference(encoding<double>(1, 1, 4), matrix<double>({{0.84147098, 0.54030231, 0.00999983, 0.99995000}})),
            5e-9);
  EXPECT_LE(difference(encoding<double>(0, 1, 4), matrix<double>({{0, 1, 0, 1}})), 0);
}

TEST(Sinusoidal, EndsAnOddWidthWithASine) {
  const auto expected = matrix<double>({{0.84147098, 0.54030231, 0.02511622, 0.99968454, 6.3095730e-4}});
  EXPECT_LE(difference(encoding<double>(1, 1, 5), expected), 5e-9);
}

TEST(Sinusoidal, FollowsTheFormulaFarOut) {
  for (const Index first : {0, 31, 1857, 100000}) {
    const auto pe = encoding<double>(first, 70, 6);
    for (Index n = 0; n < 70; ++n)
      for (Index j = 0; j < 6; ++j) {
        const double angle = static_cast<double>(first + n) / std::pow(10000.0, static_cast<double>(j / 2 * 2) / 6);
        ASSERT_NEAR(pe(n, j), j % 2 == 0 ? std::sin(angle) : std::cos(angle), 1e-10) << first << ' ' << n << ' ' << j;
      }
  }
}

TEST(Sinusoidal, IsAddedToEverySequence) {
  const auto x = random_tensor<float>(Shape{3, 5, 8}, 1);
  const auto pe = encoding<float>(7, 5, 8);
  Context ctx;
  const auto y = Sinusoidal<float>()(ctx, x, 7);
  for (Index b = 0; b < 3; ++b)
    for (Index n = 0; n < 5; ++n)
      for (Index j = 0; j < 8; ++j) EXPECT_EQ(y(b, n, j), x(b, n, j) + pe(n, j));
}

/// "The wavelengths form a geometric progression from 2π to 10000·2π": pair i has 2π·10000^(2i/D), which would reach
/// the end at i = D/2, one past the last.
TEST(Sinusoidal, HasWavelengthsFromTwoPiTo10000TwoPi) {
  const Index width = 512;
  const auto pe = encoding<double>(1, 1, width);
  const auto wavelength = [&](Index pair) {
    return 2 * std::numbers::pi / std::atan2(pe(0, 2 * pair), pe(0, 2 * pair + 1));
  };
  const double ratio = std::pow(10000.0, 2.0 / static_cast<double>(width));
  EXPECT_NEAR(wavelength(0), 2 * std::numbers::pi, 1e-13);
  for (Index pair = 1; pair < width / 2; ++pair) ASSERT_NEAR(wavelength(pair) / wavelength(pair - 1), ratio, 1e-9);
  EXPECT_NEAR(wavelength(width / 2 - 1) * ratio, 10000 * 2 * std::numbers::pi, 1e-6);
}

/// "For any fixed offset k, PE(pos+k) can be represented as a linear function of PE(pos)": a rotation of each pair.
TEST(Sinusoidal, AtAnOffsetIsARotation) {
  const Index width = 16, tokens = 200;
  const auto pe = encoding<double>(0, tokens, width);
  for (const Index offset : {1, 7, 64})
    for (Index pair = 0; pair < width / 2; ++pair) {
      const double angle = static_cast<double>(offset) *
                           std::pow(10000.0, -2.0 * static_cast<double>(pair) / static_cast<double>(width));
      for (Index n = 0; n + offset < tokens; ++n) {
        const double sine = pe(n, 2 * pair), cosine = pe(n, 2 * pair + 1);
        ASSERT_NEAR(pe(n + offset, 2 * pair), std::cos(angle) * sine + std::sin(angle) * cosine, 1e-13);
        ASSERT_NEAR(pe(n + offset, 2 * pair + 1), std::cos(angle) * cosine - std::sin(angle) * sine, 1e-13);
      }
    }
}

}  // namespace
}  // namespace eigenformer::test
