// A padded batch computes what each of its sequences does alone, to the bit.
#include <limits>

#include "eigenformer/block/pre_norm.hpp"
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
      : model(EncoderDecoderConfig{.source_vocabulary = 9,
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

}  // namespace
}  // namespace eigenformer::test
