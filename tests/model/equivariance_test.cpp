// Without positions an encoder does not know the order of its tokens; with them it does.
#include "eigenformer/block/pre_norm.hpp"
#include "eigenformer/model/encoder_decoder.hpp"
#include "support/tensors.hpp"

namespace eigenformer::test {
namespace {

const Index order[] = {3, 0, 6, 5, 1, 4, 2};

template <class T, int Rank>
Tensor<T, Rank> permuted(const Tensor<T, Rank>& x) {
  Tensor<T, Rank> y(x.shape());
  for (Index b = 0; b < x.extent(0); ++b)
    for (Index n = 0; n < x.extent(1); ++n) {
      if constexpr (Rank == 2) y(b, n) = x(b, order[n]);
      else y.view()[b].slice(0, n, 1).matrix() = x.view()[b].slice(0, order[n], 1).matrix();
    }
  return y;
}

template <class Residual>
class Equivariance : public testing::Test {};
using EquivarianceArrangements = testing::Types<PreNorm<double>, PostNorm<double>>;
TYPED_TEST_SUITE(Equivariance, EquivarianceArrangements);

TYPED_TEST(Equivariance, IsBrokenByPositionsOnly) {
  EncoderDecoder<TypeParam> model(EncoderDecoder<>::Config{.source_vocabulary = 9,
                                                           .target_vocabulary = 9,
                                                           .encoder_layers = 3,
                                                           .decoder_layers = 0,
                                                           .block = {.width = 12, .hidden = 24, .heads = 3}});
  randomize(model, 1);
  const auto ids = random_ids(Shape{2, 7}, 0, 9, 2);
  Context ctx;
  const auto without = [&](const auto& source) {
    return Tensor<double, 3>(model.encoder(ctx, model.embedding(ctx, source)));
  };
  const auto with = [&](const auto& source) { return Tensor<double, 3>(model.encode(ctx, source)); };
  EXPECT_LE(difference(without(permuted(ids)), permuted(without(ids))), 1e-12);
  EXPECT_GE(difference(with(permuted(ids)), permuted(with(ids))), 0.1);
}

}  // namespace
}  // namespace eigenformer::test
