// Checkpoints loaded in a format are those that are loaded and then packed.
#include <gtest/gtest.h>

#include <utility>

#include "eigenformer/pretrained/hugging_face.hpp"
#include "support/error.hpp"
#include "support/files.hpp"
#include "support/tensors.hpp"

namespace eigenformer::test {

template <class Model>
void check_loading(const Model& model, const PretrainedFacts& facts) {
  const TemporaryFolder folder;
  save_hugging_face(folder / "model", model, facts);
  const auto ids = random_ids(Shape{2, 9}, 0, 50, 1);
  for (const Format format : {Format::f16, Format::bf16, Format::int8, Format::int4}) {
    SCOPED_TRACE(format_name(format));
    Context ctx;
    auto packed = model;
    pack(ctx, packed, {.format = format, .keep_values = false});
    const auto loaded = load_hugging_face<Model>(folder / "model", {.format = format});
    EXPECT_TRUE(identical(loaded.model(ctx, {.ids = ids}), packed(ctx, {.ids = ids})));
    walk(
        [&](const std::string& path, const Leaf&, const auto& weight) {
          if constexpr (requires { weight.format(); }) {
            EXPECT_EQ(weight.format(), format) << path;
            EXPECT_FALSE(weight.keeps_values()) << path;
          }
        },
        loaded.model);
  }
}

TEST(PretrainedFormat, IsThatOfPack) {
  Llama<float> llama({.vocabulary = 50,
                      .layers = 2,
                      .block = {.width = 16, .hidden = 24, .heads = 4, .dropout = 0, .attention = {.kv_heads = 2}}});
  randomize(llama, 1);
  check_loading(llama, {.max_positions = 40});
  Gpt2<float> gpt2({.vocabulary = 50,  // its matrices are stored transposed, q, k and v as one
                    .max_positions = 30,
                    .layers = 2,
                    .block = {.width = 16, .hidden = 24, .heads = 2, .dropout = 0}});
  randomize(gpt2, 2);
  check_loading(gpt2, {});
}

TEST(PretrainedFormat, OnlyOfFloat) {
  Llama<double> model({.vocabulary = 50, .layers = 1, .block = {.width = 16, .hidden = 24, .heads = 4, .dropout = 0}});
  randomize(model, 1);
  const TemporaryFolder folder;
  save_hugging_face(folder / "model", model, {.max_positions = 40});
  EXPECT_EQ(error_of([&] { load_hugging_face<Llama<double>>(folder / "model", {.format = Format::int8}); }),
            "[pack] embedding.weight: [weight] only weights of float have other formats");
}

}  // namespace eigenformer::test
