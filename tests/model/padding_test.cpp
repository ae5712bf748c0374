// A padded batch computes what each of its sequences does alone, to the bit.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "eigenformer/block/encoder_block.hpp"
#include "eigenformer/block/pre_norm.hpp"
#include "eigenformer/layer/attention/kv_cache.hpp"
#include "eigenformer/model/encoder_decoder.hpp"
#include "eigenformer/op/cross_entropy.hpp"
#include "support/tensors.hpp"

namespace eigenformer::test {
namespace {

template <class Residual>
class Padding : public testing::Test {
 protected:
  using Model = EncoderDecoder<Residual>;

  Padding()
      : model(EncoderDecoder<>::Config{.source_vocabulary = 9,
                                       .target_vocabulary = 9,
                                       .encoder_layers = 2,
                                       .decoder_layers = 2,
                                       .block = {.width = 12, .hidden = 24, .heads = 3}}) {
    randomize(model, 1);
  }

  EncoderDecoderCall padded() const { return {source, source_lengths, target, target_lengths}; }

  /// Sequence b without padding, lengths or company.
  EncoderDecoderCall alone(Index b) const {
    return {.source = source.view().slice(0, b, 1).slice(1, 0, source_lengths(b)),
            .target = target.view().slice(0, b, 1).slice(1, 0, target_lengths(b))};
  }

  Model model;
  Tensor<Id, 2> source = random_ids(Shape{3, 7}, 0, 9, 2), target = random_ids(Shape{3, 6}, 0, 9, 3);
  Tensor<Index, 1> source_lengths = lengths({7, 1, 4}), target_lengths = lengths({2, 6, 5});
};
using PaddingArrangements = testing::Types<PreNorm<float>, PostNorm<float>, PreNorm<double>, PostNorm<double>>;
TYPED_TEST_SUITE(Padding, PaddingArrangements);

TYPED_TEST(Padding, LeavesOutputsAsOfEachSequenceAlone) {
  Context ctx;
  const auto logits = this->model(ctx, this->padded());
  for (Index b = 0; b < 3; ++b) {
    const auto expected = this->model(ctx, this->alone(b));
    EXPECT_TRUE(identical(logits[b].slice(0, 0, this->target_lengths(b)), expected[0])) << b;
  }
}

TYPED_TEST(Padding, LeavesLongMemoriesAsOfEachSequenceAlone) {
  const auto ids = random_ids(Shape{3, 600}, 0, 9, 5);
  const auto ends = lengths({515, 600, 3});
  Context ctx;
  const auto memory = this->model.encode(ctx, ids, ends);
  for (Index b = 0; b < 3; ++b) {
    const auto expected = this->model.encode(ctx, ids.view().slice(0, b, 1).slice(1, 0, ends(b)));
    EXPECT_TRUE(identical(memory[b].slice(0, 0, ends(b)), expected[0])) << b;
  }
}

TYPED_TEST(Padding, MayContainAnything) {
  Context ctx;
  const auto logits = this->model(ctx, this->padded());
  for (Index b = 0; b < 3; ++b) {
    for (Index m = this->source_lengths(b); m < 7; ++m) this->source(b, m) = (this->source(b, m) + 1) % 9;
    for (Index n = this->target_lengths(b); n < 6; ++n) this->target(b, n) = (this->target(b, n) + 1) % 9;
  }
  const auto others = this->model(ctx, this->padded());
  for (Index b = 0; b < 3; ++b) {
    const Index n = this->target_lengths(b);
    EXPECT_TRUE(identical(others[b].slice(0, 0, n), logits[b].slice(0, 0, n))) << b;
  }
}

// A sentence without a token beside others: nothing of it, or of its padding, is seen.
TYPED_TEST(Padding, MayBeAllOfASource) {
  this->source_lengths = lengths({0, 5, 0});
  Context ctx;
  const auto logits = this->model(ctx, this->padded());
  for (Index i = 0; i < logits.size(); ++i) ASSERT_TRUE(std::isfinite(logits.data()[i])) << i;
  for (Index b = 0; b < 3; ++b)
    EXPECT_TRUE(identical(logits[b].slice(0, 0, this->target_lengths(b)), this->model(ctx, this->alone(b))[0])) << b;
  for (Index m = 0; m < 7; ++m) this->source(0, m) = (this->source(0, m) + 1) % 9;
  EXPECT_TRUE(identical(this->model(ctx, this->padded())[0], logits[0]));
}

TYPED_TEST(Padding, LeavesGradientsAsTheSumOfEachSequenceAlone) {
  const Id ignore = -1;
  Tensor<Id, 2> labels = random_ids(Shape{3, 6}, 0, 9, 4);
  for (Index b = 0; b < 3; ++b)
    for (Index n = this->target_lengths(b); n < 6; ++n) labels(b, n) = ignore;
  const auto add_gradient = [&](const EncoderDecoderCall& call, ConstView<Id, 2> target_out, auto& gradient) {
    Tape tape;
    Context ctx;
    ctx.tape = &tape;
    tape.watch(this->model, gradient);
    const auto loss = op::cross_entropy(ctx, this->model(ctx, call), target_out, {.smoothing = 0.1, .ignore = ignore});
    backward(ctx, loss.sum);
  };
  auto together = zeros_like(this->model), one_by_one = together;
  add_gradient(this->padded(), labels, together);
  for (Index b = 0; b < 3; ++b)
    add_gradient(this->alone(b), labels.view().slice(0, b, 1).slice(1, 0, this->target_lengths(b)), one_by_one);
  const double epsilon = double{std::numeric_limits<typename TypeParam::Scalar>::epsilon()};
  walk([&](const std::string& path, const Leaf&, const auto& a,
           const auto& b) { EXPECT_LE(difference(a, b), 1000 * epsilon * (magnitude(b) + 1)) << path; },
       together, one_by_one);
}

// Every query may see token 0 alone, three blocks deep: token 0 depends on itself, whatever the others are, recorded or
// not.
TEST(PaddingOfAnEncoder, LeavesTheShapeAndTheSeenToken) {
  constexpr Index batch = 4, tokens = 6, width = 16;
  std::vector<EncoderBlock<PostNorm<float>>> blocks(
      3, EncoderBlock<PostNorm<float>>({.width = width, .hidden = 32, .heads = 2, .dropout = 0}));
  for (std::size_t i = 0; i < 3; ++i) randomize(blocks[i], i + 1);
  auto x = random_tensor<float>(Shape{batch, tokens, width}, 7);
  Tensor<bool, 2> first(Shape{Index{1}, tokens});
  first(0, 0) = true;
  const auto ones = lengths({1, 1, 1, 1});
  const auto run = [&](const Mask& mask, Tape* tape) {
    Context ctx;
    ctx.tape = tape;
    auto y = std::as_const(x).view();
    for (const auto& block : blocks) y = block(ctx, y, mask);
    return Tensor<float, 3>(y);
  };
  for (const Mask& mask : {Mask{.allowed = first}, Mask{.key_lengths = ones}}) {
    Tape tape;
    const auto y = run(mask, nullptr);
    EXPECT_EQ(y.shape(), x.shape());
    for (Index i = 0; i < y.size(); ++i) ASSERT_TRUE(std::isfinite(y.data()[i])) << i;
    EXPECT_TRUE(identical(run(mask, &tape), y));
    const auto before = x;
    for (Index b = 0; b < batch; ++b)
      for (Index n = 1; n < tokens; ++n) std::fill_n(&x(b, n, 0), width, b % 2 == 0 ? NAN : 3.0f);
    const auto others = run(mask, nullptr);
    for (Index b = 0; b < batch; ++b)
      EXPECT_TRUE(identical(others.view()[b].slice(0, 0, 1), y.view()[b].slice(0, 0, 1))) << b;
    x = before;
  }
}

// With a NaN in a token that a window has left behind, a text from a cache is the text at once, bit for bit, and NaN
// where that token is seen.
TEST(PaddingOfADecoder, NanBehindAWindow) {
  constexpr Index tokens = 300, width = 8;
  const auto block = [] {
    return EncoderBlock<>::Config{.width = width, .hidden = 16, .heads = 2, .dropout = 0, .attention = {.window = 2}};
  }();
  EncoderBlock<PreNorm<float>> layer(block);
  randomize(layer, 1);
  auto x = random_tensor<float>(Shape{Index{1}, tokens, width}, 2);
  x(0, 0, 3) = NAN;
  Context ctx;
  const auto whole = layer(ctx, std::as_const(x).view(), Mask{.causal = true});
  KvCache<float> cache = layer.attention.cache(1);
  for (Index first = 0; first < tokens;) {
    const std::vector<Index> counts{(std::min)(tokens - first, first % 3 + 1)};
    const auto part = layer(ctx, std::as_const(x).view().slice(1, first, counts[0]),
                            AttentionCall<float>{.mask = {.causal = true}, .caches = &cache, .counts = counts});
    for (Index n = 0; n < counts[0]; ++n)
      for (Index e = 0; e < width; ++e)
        if (first + n < 2) ASSERT_TRUE(std::isnan(part(0, n, e)) && std::isnan(whole(0, first + n, e))) << first + n;
        else ASSERT_TRUE(std::isfinite(part(0, n, e)) && part(0, n, e) == whole(0, first + n, e)) << first + n;
    first += counts[0];
  }
}

// All numbers that a window may be: the widest is none.
TEST(PaddingOfADecoder, WidestWindow) {
  const auto x = random_tensor<float>(Shape{2, 9, 8}, 2);
  const auto run = [&](Index window) {
    EncoderBlock<PreNorm<float>> layer(
        {.width = 8, .hidden = 16, .heads = 2, .dropout = 0, .attention = {.window = window}});
    randomize(layer, 1);
    Context ctx;
    return Tensor<float, 3>(layer(ctx, x.view(), Mask{.causal = true}));
  };
  EXPECT_TRUE(identical(run((std::numeric_limits<Index>::max)()), run(0)));
}

}  // namespace
}  // namespace eigenformer::test
