// A model refuses what does not fit, stays what it was, and goes on with the next call.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "eigenformer/core/initialize.hpp"
#include "eigenformer/model/bert.hpp"
#include "eigenformer/model/decoders.hpp"
#include "eigenformer/model/encoder_decoder.hpp"
#include "eigenformer/model/t5.hpp"
#include "support/error.hpp"
#include "support/sanitizers.hpp"
#include "support/tensors.hpp"

using namespace eigenformer;
using test::error_of;
using test::memory_is_sanitized;

namespace {

EncoderDecoder<>::Config small() {
  return {.source_vocabulary = 11,
          .target_vocabulary = 11,
          .encoder_layers = 1,
          .decoder_layers = 1,
          .block = {.width = 8, .hidden = 6, .heads = 2, .dropout = 0}};
}

EncoderDecoder<> made() {
  EncoderDecoder<> model(small());
  initialize(model, 1);
  return model;
}

ConstView<Id, 2> as_rows(const std::vector<Id>& ids, Index rows) {
  return {ids.data(), {rows, static_cast<Index>(ids.size()) / rows}};
}

const std::vector<Id> source{3, 4, 5, 6, 7, 8}, target{1, 3, 4, 1};  // (2, 3) and (2, 2)

std::vector<float> outputs(Context& ctx, const EncoderDecoder<>& model, const EncoderDecoderCall& call) {
  const auto y = model(ctx, call);
  return {y.data(), y.data() + y.size()};
}

std::string refused(EncoderDecoder<>::Config config) {
  return error_of([&] { EncoderDecoder<>{config}; });
}

}  // namespace

TEST(BadConfig, EncoderDecoder) {
  auto config = small();
  config.target_vocabulary = 12;
  EXPECT_EQ(refused(config), "[encoder_decoder] a shared table needs equal vocabularies, not 11 and 12");
  config.sharing = Sharing::target_and_output;
  EXPECT_NO_THROW(EncoderDecoder<>{config});
  config = small();
  config.source_vocabulary = config.target_vocabulary = 0;
  EXPECT_EQ(refused(config), "[encoder_decoder] source_vocabulary 0 is invalid: must be in 1…2147483647");
  config = small();
  config.encoder_layers = -1;
  EXPECT_EQ(refused(config), "[encoder_decoder] encoder_layers -1 is invalid: must be in 0…65536");
  config = small();
  config.block.heads = 3;
  EXPECT_EQ(refused(config), "[attention] 3 heads do not divide model width 8");
  config = small();
  config.block.dropout = 1;
  EXPECT_EQ(refused(config), "[attention] dropout 1 is invalid: must be in [0, 1)");
}

// One position is for all layers: what it rotates, and for how many heads, must fit each of them.
TEST(BadConfig, PositionsThatFitSomeLayers) {
  Llama<float>::Config rotated{.vocabulary = 7, .layers = 2, .block = {.width = 8, .heads = 2}};
  rotated.each_layer.assign(2, rotated.block);
  EXPECT_EQ(Llama<float>{rotated}.position.config->head_width, 4);
  rotated.each_layer[1].heads = 1;
  EXPECT_EQ(error_of([&] { Llama<float>{rotated}; }),
            "[language_model] positions are for heads of width 4, but those of layer 1 have width 8");
  rotated.each_layer[1].attention.head_width = 4;  // fewer heads of the same width
  EXPECT_NO_THROW(Llama<float>{rotated});

  T5<float>::Config biased{.source_vocabulary = 7,
                           .target_vocabulary = 7,
                           .encoder_layers = 1,
                           .decoder_layers = 1,
                           .block = {.width = 8, .heads = 2},
                           .position = {.heads = 4},
                           .target_position = RelativeConfig{.heads = 4}};
  const auto refuse = [&] {
    EXPECT_EQ(error_of([&] { T5<float>{biased}; }), "[encoder_decoder] positions are for 4 heads, but layer 0 has 2");
  };
  refuse();
  biased.position.heads = 2;
  refuse();
  biased.target_position->heads = 2;
  EXPECT_EQ(T5<float>{biased}.target_position.weight.shape(), (Shape{32, 2}));
}

TEST(BadInput, EncoderDecoder) {
  const auto model = made(), before = model;
  Context ctx;
  Tape tape;
  ctx.tape = &tape;
  const EncoderDecoderCall good{.source = as_rows(source, 2), .target = as_rows(target, 2)};
  const auto expected = outputs(ctx, model, good);
  ctx.reset();

  const auto refuse = [&](const EncoderDecoderCall& call, const std::string& text) {
    EXPECT_EQ(error_of([&] { model(ctx, call); }), text);
    ctx.reset();
    EXPECT_EQ(tape.size(), 0);
    EXPECT_EQ(outputs(ctx, model, good), expected) << "the context works as before";
    ctx.reset();
  };
  refuse({.source = as_rows(source, 3), .target = as_rows(target, 2)},
         "[encoder_decoder] sources (3, 2) and targets (2, 2) are of different batches");
  const std::vector<Id> bad_source{3, 4, 5, 6, 11, 8}, bad_target{1, -1, 4, 1};
  refuse({.source = as_rows(bad_source, 2), .target = as_rows(target, 2)},
         "[embedding] id 11 in row 1, column 1 of (2, 3) is not in the vocabulary of 11");
  refuse({.source = as_rows(source, 2), .target = as_rows(bad_target, 2)},
         "[embedding] id -1 in row 0, column 1 of (2, 2) is not in the vocabulary of 11");
  const std::vector<Index> one{3}, too_long{3, 4}, negative{-1, 2};
  refuse({.source = as_rows(source, 2), .source_lengths = one, .target = as_rows(target, 2)},
         "[attention] 1 key lengths for a batch of 2");
  refuse({.source = as_rows(source, 2), .source_lengths = too_long, .target = as_rows(target, 2)},
         "[attention] key length 4 of sequence 1 is not in 0…3");
  refuse({.source = as_rows(source, 2), .target = as_rows(target, 2), .target_lengths = negative},
         "[attention] key length -1 of sequence 0 is not in 0…2");

  walk(
      [](const std::string& path, const Leaf&, const auto& a, const auto& b) {
        EXPECT_EQ(std::memcmp(a.data(), b.data(), static_cast<std::size_t>(a.size()) * sizeof(float)), 0) << path;
      },
      model, before);
}

TEST(EmptyInput, GivesResultsOfTheRightShape) {
  const auto model = made();
  Context ctx;
  const auto no_source = model(ctx, {.source = {target.data(), {2, 0}}, .target = as_rows(target, 2)});
  EXPECT_EQ(no_source.shape(), (Shape{2, 2, 11}));
  for (Index i = 0; i < no_source.size(); ++i) EXPECT_TRUE(std::isfinite(no_source.data()[i]));
  EXPECT_EQ(model(ctx, {.source = as_rows(source, 2), .target = {target.data(), {2, 0}}}).shape(), (Shape{2, 0, 11}));
  EXPECT_EQ(model(ctx, {.source = {target.data(), {0, 3}}, .target = {target.data(), {0, 2}}}).shape(),
            (Shape{0, 2, 11}));
}

// Not given is a mistake; given, and empty, is not.
TEST(AbsentInput, IsAnError) {
  const auto model = made();
  Context ctx;
  EXPECT_EQ(error_of([&] { model(ctx, {}); }), "[encoder_decoder] no source is given");
  EXPECT_EQ(error_of([&] { model(ctx, {.source = as_rows(source, 2)}); }), "[encoder_decoder] no target is given");
  EXPECT_EQ(error_of([&] { model(ctx, {.target = as_rows(target, 2)}); }), "[encoder_decoder] no source is given");
  EXPECT_EQ(error_of([&] { model.encode(ctx, {}); }), "[encoder_decoder] no source is given");
  EXPECT_EQ(error_of([&] { model.start(ctx, {}); }), "[encoder_decoder] no source is given");
  EXPECT_EQ(error_of([&] { model.decode(ctx, {}, model.encode(ctx, as_rows(source, 2))); }),
            "[encoder_decoder] no target is given");
  EXPECT_EQ(error_of([&] { model.decode(ctx, as_rows(target, 2), {}); }),
            "[decoder_block] no memory is given to attend to");
  const std::vector<Id> none;
  EXPECT_EQ(model(ctx, {.source = {none.data(), {0, 3}}, .target = {none.data(), {0, 2}}}).shape(), (Shape{0, 2, 11}));

  Bloom<float> decoder({.vocabulary = 7, .layers = 1, .block = {.width = 8, .hidden = 8, .heads = 2, .dropout = 0}});
  initialize(decoder, 1);
  EXPECT_EQ(error_of([&] { decoder(ctx, {}); }), "[language_model] no ids are given");
  EXPECT_EQ(error_of([&] { decoder.hidden(ctx, LanguageModelCall{}); }), "[language_model] no ids are given");
  EXPECT_EQ(decoder(ctx, {.ids = {none.data(), {0, 3}}}).shape(), (Shape{0, 3, 7}));
  EXPECT_EQ(decoder(ctx, {.ids = as_rows(source, 2).slice(1, 0, 0), .lengths = std::vector<Index>{0, 0}}).shape(),
            (Shape{2, 0, 7}));
  EXPECT_EQ(error_of([&] { decoder(ctx, {.ids = as_rows(target, 2), .lengths = std::vector<Index>{}}); }),
            "[attention] 0 key lengths for a batch of 2");

  Bert<float> bert(
      {.vocabulary = 7, .max_positions = 8, .layers = 1, .block = {.width = 8, .hidden = 8, .heads = 2, .dropout = 0}});
  initialize(bert, 1);
  EXPECT_EQ(error_of([&] { bert(ctx, {}); }), "[bert] no ids are given");
  EXPECT_EQ(bert(ctx, {.ids = {none.data(), {0, 3}}}).shape(), (Shape{0, 3, 8}));
}

// What cannot be had is an Error before memory is taken.
TEST(BadConfig, SizesThatCannotBeHad) {
  if (memory_is_sanitized || sizeof(Index) < 8) GTEST_SKIP() << "needs a large address space, and its own allocator";
  constexpr auto huge = static_cast<Index>(std::uint64_t{1} << 40);
  auto config = small();
  config.decoder_layers = huge;
  EXPECT_NE(refused(config), "");
  config = small();
  config.source_vocabulary = config.target_vocabulary = 64 * huge;
  EXPECT_NE(refused(config), "");
  config = small();
  config.block.hidden = 64 * huge;
  EXPECT_NE(refused(config), "");
  config = small();
  config.block.width = config.block.heads = huge;
  EXPECT_NE(refused(config), "");
  EXPECT_NE(error_of([&] { Stack<EncoderBlock<>>({.layers = huge}); }), "");
}

// What a window has left behind is gone: a state goes on in a model of the same windows alone, layer by layer.
TEST(BadStates, OfOtherWindows) {
  const auto begun = [](Index last) {
    Bloom<float>::Config config{.vocabulary = 7, .layers = 2, .block = {.width = 8, .hidden = 8, .heads = 2}};
    config.each_layer.assign(2, config.block);
    config.each_layer[1].attention.window = last;
    Bloom<float> model(config);
    initialize(model, 1);
    return model;
  };
  const auto narrow = begun(4), wide = begun(5), whole = begun(0);
  const std::vector<Id> ids(600, 1), one{1};
  const std::vector<Index> many{600}, single{1};
  Context ctx;
  for (const auto* from : {&narrow, &wide, &whole}) {
    auto state = from->start();
    for (int i = 0; i < 2; ++i) from->hidden(ctx, {ids, many}, state);
    for (const auto* to : {&narrow, &wide, &whole})
      if (to != from) {
        EXPECT_EQ(error_of([&] {
                    to->hidden(ctx, {one, single}, state);
                  }),
                  "[decoder_state] this state is none of this model: it comes from start()");
      }
    EXPECT_EQ(state.layers[0].length(0), 1200) << "nothing has changed";
    EXPECT_NO_THROW(from->hidden(ctx, {one, single}, state));
  }
}

// A state is for the model that began it; what is refused leaves it as it was.
TEST(BadStates, OfOtherModels) {
  using Model = EncoderDecoder<PostNorm<float>>;
  const auto config = [](Index heads, Index head_width) {
    return EncoderDecoder<>::Config{
        .source_vocabulary = 7,
        .target_vocabulary = 7,
        .encoder_layers = 1,
        .decoder_layers = 1,
        .block = {.width = 8, .hidden = 8, .heads = heads, .dropout = 0, .attention = {.head_width = head_width}}};
  };
  const auto begun = [](auto of) {
    initialize(of, 1);
    return of;
  };
  const Model model = begun(Model(config(2, 4))), wider = begun(Model(config(2, 64))),
              more = begun(Model(config(4, 4)));
  const Bloom<float> decoder =
      begun(Bloom<float>({.vocabulary = 7, .layers = 1, .block = {.width = 8, .hidden = 8, .heads = 2}}));
  const Bloom<float> without_layers =
      begun(Bloom<float>({.vocabulary = 7, .layers = 0, .block = {.width = 8, .hidden = 8, .heads = 2}}));
  const Tensor<Id, 2> two_sources(Shape{2, 3});
  Context ctx;
  auto state = model.start(ctx, two_sources);
  const std::vector<Id> ids{1, 2};
  const std::vector<Index> ones{1, 1}, lacking{2, 0};
  const std::string other = "[decoder_state] this state is none of this model: it comes from start()";
  EXPECT_EQ(error_of([&] { wider.hidden(ctx, {ids, ones}, state); }), other);
  EXPECT_EQ(error_of([&] { more.hidden(ctx, {ids, ones}, state); }), other);
  EXPECT_EQ(error_of([&] { decoder.hidden(ctx, {ids, ones}, state); }), other);
  EXPECT_EQ(error_of([&] {
              model.next_logits(ctx, {ids, lacking}, state);
            }),
            "[encoder_decoder] there is no token for sequence 1, and so no logits of the next");
  const std::vector<Index> all{2, 0}, too_many{1, 2}, negative{1, -1};
  EXPECT_EQ(error_of([&] {
              model.next_logits(ctx, {ids, ones, too_many}, state);
            }),
            "[encoder_decoder] logits wanted after 2 of 1 tokens of sequence 1");
  EXPECT_EQ(error_of([&] {
              model.next_logits(ctx, {ids, ones, negative}, state);
            }),
            "[encoder_decoder] logits wanted after -1 of 1 tokens of sequence 1");
  EXPECT_EQ(error_of([&] {
              model.next_logits(ctx, {ids, ones, {all.data(), 1}}, state);
            }),
            "[encoder_decoder] logits wanted of 1 sequences, but there are 2");
  EXPECT_EQ(error_of([&] { state.truncate(ones); }),
            "[decoder_state] sequence 0 cannot go back to 1 tokens: it can to 0…0");
  EXPECT_EQ(error_of([&] { state.truncate({}); }), "[decoder_state] lengths of 0 sequences, but there are 2");
  EXPECT_EQ(state.length(0), 0);
  EXPECT_EQ(error_of([&] {
              model.start(ctx, two_sources, test::lengths({3, 4}));
            }),
            "[encoder_decoder] length 4 of source 1 is not in 0…3");
  EXPECT_EQ(error_of([&] {
              model.start(ctx, two_sources, test::lengths({-1, 4}));
            }),
            "[encoder_decoder] length -1 of source 0 is not in 0…3");
  EXPECT_EQ(error_of([&] { model.start(ctx, two_sources, test::lengths({1})); }),
            "[encoder_decoder] 1 lengths for 2 sources");
  EXPECT_EQ(error_of([&] { without_layers.start(); }),
            "[decoder_state] a model without layers cannot remember where its sequences stand");
  if (sizeof(Index) == 8) {
    EXPECT_EQ(error_of([&] { decoder.start(static_cast<Index>(std::int64_t{1} << 60)); }),
              "[kv_cache] cannot keep 1152921504606846976 sequences");
  }
}
