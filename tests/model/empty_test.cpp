// Empty is a size like any other, and not the same as absent: batches, sequences and memories of nothing, given by null
// pointers as std::vector has them, forwards and backwards.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include "eigenformer/block/post_norm.hpp"
#include "eigenformer/layer/attention/attention.hpp"
#include "eigenformer/model/bert.hpp"
#include "eigenformer/model/decoders.hpp"
#include "eigenformer/model/encoder_decoder.hpp"
#include "eigenformer/model/t5.hpp"
#include "eigenformer/op/attention.hpp"
#include "eigenformer/op/cross_entropy.hpp"
#include "support/error.hpp"
#include "support/tensors.hpp"

namespace eigenformer::test {
namespace {

constexpr Id words = 7;

/// As many elements as the shape has; none: at no address.
template <class T, int Rank>
struct Elements {
  Tensor<T, Rank> elements;
  Shape<Rank> shape;

  explicit Elements(Shape<Rank> of) : elements(of), shape(of) { std::fill_n(elements.data(), elements.size(), T{1}); }
  ConstView<T, Rank> view() const { return {elements.size() == 0 ? nullptr : elements.data(), shape}; }
};

/// `tokens` for each of so many sequences.
std::vector<Index> lengths_of(Index batch, Index tokens) {
  return std::vector<Index>(static_cast<std::size_t>(batch), tokens);
}

template <class F>
void for_empty_sizes(F&& f) {
  for (const Index batch : {0, 2})
    for (const Index queries : {0, 3})
      for (const Index keys : {0, 4}) {
        SCOPED_TRACE(testing::Message() << batch << " sequences of " << queries << " queries and " << keys << " keys");
        f(batch, queries, keys);
      }
}

bool all_finite(const auto& x) {
  return std::all_of(x.data(), x.data() + x.size(), [](auto value) { return std::isfinite(value); });
}

/// What f(ctx, model) computes, and the gradient of its sum.
template <class Model, class F>
Model gradient_of_sum(const Model& model, F&& f) {
  Model gradient = zeros_like(model);
  Context ctx;
  Tape tape;
  ctx.tape = &tape;
  tape.watch(model, gradient);
  const auto y = f(ctx, model);
  Tensor<double, 3> ones(y.shape());
  std::fill_n(ones.data(), ones.size(), 1.0);
  EXPECT_TRUE(all_finite(y));
  backward(ctx, y, ones.view());
  walk([](const std::string& path, const Leaf&, const auto& x) { EXPECT_TRUE(all_finite(x)) << path; }, gradient);
  return gradient;
}

double sum_of_magnitudes(const auto& model) {
  double sum = 0;
  walk([&](const Leaf&, const auto& x) { sum += magnitude(x); }, model);
  return sum;
}

}  // namespace

TEST(EmptyAxes, OpAttention) {
  for_empty_sizes([](Index batch, Index queries, Index keys) {
    const auto q = random_tensor<double>(Shape{batch, queries, Index{2}, Index{3}}, 1),
               k = random_tensor<double>(Shape{batch, keys, Index{2}, Index{3}}, 2);
    const auto sinks = random_tensor<double>(Shape{2}, 3);
    const auto key_lengths = lengths_of(batch, keys), query_lengths = lengths_of(batch, queries);
    const Elements<bool, 3> allowed(Shape{batch, queries, keys});
    for (const Mask& mask : {Mask{}, Mask{.causal = true}, Mask{.window = 2},
                             Mask{.key_lengths = key_lengths, .query_lengths = query_lengths},
                             Mask{.causal = true, .prefixes = key_lengths}, Mask{.allowed = allowed.view()}})
      for (const bool with_sinks : {false, true}) {
        Tensor<double, 4> dq(q.shape()), dk(k.shape()), dv(k.shape());
        Tensor<double, 1> dsinks(sinks.shape());
        const Tensor<double, 4> v = k;
        Context ctx;
        Tape tape;
        ctx.tape = &tape;
        tape.watch(q.view(), dq.view()), tape.watch(k.view(), dk.view()), tape.watch(v.view(), dv.view());
        tape.watch(sinks.view(), dsinks.view());
        const auto y = op::attention<double>(ctx, q.view(), k.view(), v.view(), {.scale = 0.5, .mask = mask}, {},
                                             with_sinks ? sinks.view() : ConstView<double, 1>());
        ASSERT_EQ(y.shape(), q.shape());
        if (keys == 0) {
          EXPECT_EQ(magnitude(y), 0) << "who may attend to nothing yields zeros";
        }
        backward(ctx, y, q.view());
        for (const auto* gradient : {&dq, &dk, &dv}) EXPECT_TRUE(all_finite(*gradient));
        if (batch * queries * keys == 0) {
          EXPECT_EQ(magnitude(dq) + magnitude(dk) + magnitude(dv), 0);
        }
        EXPECT_EQ(magnitude(dsinks) > 0, with_sinks && batch * queries * keys > 0);
      }
  });
}

// Lengths of no sequence are wrong for two, and absent ones are not.
TEST(EmptyAxes, MasksOfNothing) {
  const auto x = random_tensor<float>(Shape{2, 3, 2, 4}, 1);
  const Elements<Index, 1> none(Shape{0});
  const auto refusal = [&](const Mask& mask) {
    Context ctx;
    return error_of([&] { op::attention<float>(ctx, x.view(), x.view(), x.view(), {.mask = mask}); });
  };
  EXPECT_EQ(refusal({.key_lengths = none.view()}), "[attention] 0 key lengths for a batch of 2");
  EXPECT_EQ(refusal({.query_lengths = none.view()}), "[attention] 0 query lengths for a batch of 2");
  EXPECT_EQ(refusal({.causal = true, .prefixes = none.view()}), "[attention] 0 prefix lengths for a batch of 2");
  EXPECT_EQ(refusal({.allowed = Elements<bool, 2>(Shape{0, 0}).view()}),
            "[attention] a mask of (1, 1, 0, 0) does not fit scores of (2, 2, 3, 3) (batch, heads, queries, keys)");
  EXPECT_EQ(refusal({.allowed = Elements<bool, 3>(Shape{0, 3, 3}).view()}),
            "[attention] a mask of (0, 1, 3, 3) does not fit scores of (2, 2, 3, 3) (batch, heads, queries, keys)");
  Context ctx;
  EXPECT_NO_THROW(op::attention<float>(ctx, x.view(), x.view(), x.view(), {.mask = {.allowed = ConstView<bool, 2>()}}));
}

// An empty memory is not the lack of one, which would be self-attention.
TEST(EmptyAxes, AttentionToNothing) {
  Attention<double> attention({.width = 8, .heads = 2});
  randomize(attention, 1);
  for (const Index batch : {0, 2}) {
    const auto x = random_tensor<double>(Shape{batch, Index{3}, Index{8}}, 2);
    const Elements<double, 3> memory(Shape{batch, 0, 8}), nothing(Shape{0, 0, 8});
    const auto gradient = gradient_of_sum(attention, [&](Context& ctx, const auto& m) {
      const auto y = m(ctx, x.view(), {.memory = memory.view()});
      for (Index i = 0; i < y.size(); ++i) EXPECT_EQ(y.data()[i], attention.output.bias.data()[i % 8]);
      return y;
    });
    EXPECT_EQ(magnitude(gradient.query.weight), 0);
    EXPECT_EQ(magnitude(gradient.output.bias) > 0, batch > 0);
    Context ctx;
    if (batch > 0) {
      EXPECT_GT(difference(attention(ctx, x.view()), attention(ctx, x.view(), {.memory = memory.view()})), 0.01);
      EXPECT_NE(error_of([&] { attention(ctx, x.view(), {.memory = nothing.view()}); }), "");
    }
  }
}

TEST(EmptyAxes, EncoderDecoders) {
  const auto run = [](const auto& model, Index batch, Index targets, Index sources, bool with_lengths) {
    const Elements<Id, 2> source(Shape{batch, sources}), target(Shape{batch, targets});
    const auto source_lengths = lengths_of(batch, sources), target_lengths = lengths_of(batch, targets);
    EncoderDecoderCall call{.source = source.view(), .target = target.view()};
    if (with_lengths) call.source_lengths = source_lengths, call.target_lengths = target_lengths;
    const auto gradient = gradient_of_sum(model, [&](Context& ctx, const auto& m) {
      const auto y = m(ctx, call);
      EXPECT_EQ(y.shape(), (Shape{batch, targets, Index{words}}));
      return y;
    });
    EXPECT_EQ(sum_of_magnitudes(gradient) > 0, batch * targets > 0);
    EXPECT_EQ(magnitude(gradient.encoder.blocks[0].feed_forward.up.weight) > 0, batch * targets * sources > 0);
    Context ctx;
    EXPECT_EQ(op::cross_entropy(ctx, model(ctx, call), target.view()).tokens, batch * targets);
  };
  const auto make = []<class Model>(std::type_identity<Model>) {
    return Model({.source_vocabulary = words,
                  .target_vocabulary = words,
                  .encoder_layers = 1,
                  .decoder_layers = 1,
                  .block = {.width = 8, .hidden = 6, .heads = 2, .dropout = 0}});
  };
  auto model = make(std::type_identity<EncoderDecoder<PostNorm<double>>>());
  auto t5 = make(std::type_identity<T5v11<double>>());
  randomize(model, 1), randomize(t5, 2);
  for_empty_sizes([&](Index batch, Index targets, Index sources) {
    for (const bool with_lengths : {false, true}) {
      run(model, batch, targets, sources, with_lengths);
      run(t5, batch, targets, sources, with_lengths);
    }
  });
}

template <class Model>
class EmptyAxesOf : public testing::Test {};
using LanguageModels = testing::Types<Gpt2<double>, Llama<double>, Bloom<double>, Qwen3<double>, Phi2<double>>;
TYPED_TEST_SUITE(EmptyAxesOf, LanguageModels);

TYPED_TEST(EmptyAxesOf, LanguageModel) {
  TypeParam model({.vocabulary = words,
                   .max_positions = 8,
                   .layers = 2,
                   .block = {.width = 8, .hidden = 6, .heads = 2, .dropout = 0}});
  randomize(model, 1);
  for (const Index batch : {0, 2})
    for (const Index tokens : {0, 3})
      for (const bool with_lengths : {false, true}) {
        SCOPED_TRACE(testing::Message() << batch << " sequences of " << tokens << " tokens");
        const Elements<Id, 2> ids(Shape{batch, tokens});
        const auto lengths = lengths_of(batch, tokens);
        LanguageModelCall call{.ids = ids.view()};
        if (with_lengths) call.lengths = lengths, call.prefixes = {};
        const auto gradient = gradient_of_sum(model, [&](Context& ctx, const auto& m) {
          const auto y = m(ctx, call);
          EXPECT_EQ(y.shape(), (Shape{batch, tokens, Index{words}}));
          return y;
        });
        EXPECT_EQ(sum_of_magnitudes(gradient) > 0, batch * tokens > 0);
      }
}

// States of no sequences, of sequences without tokens, and of sources without tokens.
TEST(EmptyAxes, States) {
  Context ctx;
  Llama<float> llama({.vocabulary = words, .layers = 1, .block = {.width = 8, .hidden = 6, .heads = 2, .dropout = 0}});
  randomize(llama, 1);
  const std::vector<Index> none{0, 0}, one{1, 1};
  const std::vector<Id> ids{3, 4};
  auto nobody = llama.start(0);
  EXPECT_EQ(llama.hidden(ctx, {.ids = {}, .counts = {}}, nobody).shape(), (Shape{1, 0, 8}));
  EXPECT_EQ(llama.next_logits(ctx, {.ids = {}, .counts = {}}, nobody).shape(), (Shape{0, Index{words}}));
  auto state = llama.start(2);
  EXPECT_EQ(llama.hidden(ctx, {.ids = {}, .counts = none}, state).shape(), (Shape{1, 0, 8}));
  EXPECT_TRUE(identical(llama.hidden(ctx, {.ids = ids, .counts = one}, state).flat(),
                        llama.hidden(ctx, {.ids = ConstView<Id, 2>(ids.data(), {2, 1})}).flat()));

  EncoderDecoder<PostNorm<float>> model({.source_vocabulary = words,
                                         .target_vocabulary = words,
                                         .encoder_layers = 1,
                                         .decoder_layers = 1,
                                         .block = {.width = 8, .hidden = 6, .heads = 2, .dropout = 0}});
  randomize(model, 1);
  for (const Index sources : {0, 3}) {
    auto begun = model.start(ctx, Elements<Id, 2>(Shape{0, sources}).view());
    EXPECT_EQ(model.next_logits(ctx, {.ids = {}, .counts = {}}, begun).shape(), (Shape{0, Index{words}}));
  }
  const Elements<Id, 2> source(Shape{2, 0});
  for (const bool with_lengths : {false, true}) {
    const ConstView<Index, 1> lengths = with_lengths ? ConstView<Index, 1>(none) : ConstView<Index, 1>();
    auto begun = model.start(ctx, source.view(), lengths);
    EXPECT_TRUE(identical(
        model.hidden(ctx, {.ids = ids, .counts = one}, begun).flat(),
        model.decode(ctx, ConstView<Id, 2>(ids.data(), {2, 1}), model.encode(ctx, source.view(), lengths), lengths)
            .flat()));
  }
  EXPECT_NE(error_of([&] { model.start(ctx, source.view(), std::vector<Index>()); }), "");
}

TEST(EmptyAxes, Encoder) {
  Bert<double> model({.vocabulary = words,
                      .max_positions = 8,
                      .layers = 1,
                      .block = {.width = 8, .hidden = 6, .heads = 2, .dropout = 0}});
  randomize(model, 1);
  for (const Index batch : {0, 2})
    for (const Index tokens : {0, 3}) {
      const Elements<Id, 2> ids(Shape{batch, tokens});
      const auto lengths = lengths_of(batch, tokens);
      for (const BertCall& call : {BertCall{.ids = ids.view()}, BertCall{.ids = ids.view(), .types = ids.view()},
                                   BertCall{.ids = ids.view(), .lengths = lengths}}) {
        const auto gradient = gradient_of_sum(model, [&](Context& ctx, const auto& m) { return m(ctx, call); });
        EXPECT_EQ(sum_of_magnitudes(gradient) > 0, batch * tokens > 0);
      }
      Context ctx;
      if (batch * tokens > 0) {
        EXPECT_NE(error_of([&] { model(ctx, {.ids = ids.view(), .types = Elements<Id, 2>(Shape{0, 0}).view()}); }), "");
      }
    }
}

}  // namespace eigenformer::test
