// The two arrangements of norm and residual, on x = (1, 2, 3, 4) with sublayers that give zero.
#include "eigenformer/block/decoder_block.hpp"
#include "eigenformer/block/encoder_block.hpp"
#include "eigenformer/block/post_norm.hpp"
#include "eigenformer/block/pre_norm.hpp"
#include "eigenformer/model/stack.hpp"
#include "support/tensors.hpp"

namespace eigenformer::test {
namespace {

const EncoderBlock<>::Config config{.width = 4, .hidden = 8, .heads = 2, .dropout = 0};
const DecoderBlock<>::Config decoder_config{.width = 4, .hidden = 8, .heads = 2, .dropout = 0};

/// All weights zero but the norms' scales, which are one.
template <class Model>
Model silent(const auto& model_config) {
  Model model(model_config);
  walk([](const std::string&, const Leaf& leaf,
          auto& x) { std::fill_n(x.data(), x.size(), leaf.init == Init::ones ? 1.0 : 0.0); },
       model);
  return model;
}

Tensor<double, 3> stream() { return Tensor<double, 3>(matrix<double>({{1, 2, 3, 4}}).view().reshape(Shape{1, 1, 4})); }

/// x normalised so often: mean 2.5, deviations (−1.5, −0.5, 0.5, 1.5) of variance 1.25.
Tensor<double, 3> normalized(int times) {
  double unit = 0.5, variance = 1.25;
  for (; times > 0; --times) {
    const double scale = 1 / std::sqrt(variance + 1e-5);
    unit *= scale;
    variance *= scale * scale;
  }
  return Tensor<double, 3>(matrix<double>({{-3 * unit, -unit, unit, 3 * unit}}).view().reshape(Shape{1, 1, 4}));
}

TEST(PreNorm, LeavesTheResidualPathUntouched) {
  Context ctx;
  EXPECT_TRUE(identical(silent<EncoderBlock<PreNorm<double>>>(config)(ctx, stream()), stream()));
  EXPECT_TRUE(identical(silent<DecoderBlock<PreNorm<double>>>(DecoderBlock<>::Config{
                            .width = 4, .hidden = 8, .heads = 2, .dropout = 0})(ctx, stream(), stream()),
                        stream()));
}

TEST(PreNorm, EndsAStackWithANorm) {
  const auto stack = silent<Encoder<PreNorm<double>>>(Encoder<>::Config{3, config});
  Context ctx;
  const auto y = stack(ctx, stream());
  EXPECT_NEAR(y(0, 0, 0), -1.341635, 5e-7);
  EXPECT_NEAR(y(0, 0, 1), -0.447212, 5e-7);
  EXPECT_LE(difference(y, normalized(1)), 1e-14);
}

TEST(PostNorm, NormalizesEverySum) {
  Context ctx;
  EXPECT_LE(difference(silent<EncoderBlock<PostNorm<double>>>(config)(ctx, stream()), normalized(2)), 1e-14);
  EXPECT_LE(difference(silent<DecoderBlock<PostNorm<double>>>(decoder_config)(ctx, stream(), stream()), normalized(3)),
            1e-14);
  EXPECT_LE(difference(silent<Encoder<PostNorm<double>>>(Encoder<>::Config{3, config})(ctx, stream()), normalized(6)),
            1e-14);
}

TEST(PostNorm, HasAFinalNormOnRequest) {
  Context ctx;
  EXPECT_LE(
      difference(silent<Encoder<PostNorm<double>>>(Encoder<>::Config{3, config, true})(ctx, stream()), normalized(7)),
      1e-14);
  EXPECT_TRUE(
      identical(silent<Encoder<PreNorm<double>>>(Encoder<>::Config{3, config, false})(ctx, stream()), stream()));
}

/// What the sublayer sees is where the arrangements differ.
TEST(Residual, GivesTheSublayerItsInput) {
  Context ctx;
  const auto seen = [&](const auto& residual) {
    Tensor<double, 3> input;
    residual(ctx, ConstView<double, 3>(stream()),
             [&](ConstView<double, 3> z) { return input = Tensor<double, 3>(z), z; });
    return input;
  };
  EXPECT_TRUE(identical(seen(silent<PostNorm<double>>(PreNorm<>::Config{4})), stream()));
  EXPECT_LE(difference(seen(silent<PreNorm<double>>(PreNorm<>::Config{4})), normalized(1)), 1e-14);
}

}  // namespace
}  // namespace eigenformer::test
