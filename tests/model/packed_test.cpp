// A model whose weights are kept packed alone.
#include <algorithm>
#include <string>
#include <type_traits>
#include <utility>

#include "eigenformer/core/initialize.hpp"
#include "eigenformer/io/checkpoint.hpp"
#include "eigenformer/model/decoders.hpp"
#include "support/error.hpp"
#include "support/files.hpp"
#include "support/tensors.hpp"

namespace eigenformer::test {

TEST(PackedModel, InfersTheSameBitsAndIsNeitherTrainedNorStored) {
  Gpt2<float> model({.vocabulary = 37,
                     .max_positions = 30,
                     .layers = 1,
                     .block = {.width = 24, .hidden = 40, .heads = 2, .dropout = 0}});  // tied
  initialize(model, 1);
  const auto ids = random_ids(Shape{2, 11}, 0, 37, 1);
  Context ctx;
  const Tensor<float, 3> expected(model(ctx, {.ids = ids}));
  const Index count = parameter_count(model);
  const TemporaryFolder folder;
  const auto path = folder / "model.safetensors";
  save(path, model);
  const std::string saved = read_file(path);

  pack(ctx, model, {.keep_values = false});
  Gpt2<float> copy = model;
  EXPECT_TRUE(identical(copy(ctx, {.ids = ids}), expected));
  EXPECT_EQ(parameter_count(copy), count);

  const std::string gone = "[embedding.weight] its values were given up by pack(): this weight serves inference alone";
  EXPECT_EQ(error_of([&] { save(path, copy); }), gone);
  EXPECT_EQ(read_file(path), saved);
  EXPECT_EQ(error_of([&] { set_zero(copy); }), gone);
  walk(
      [](const Leaf&, auto& tensor) {
        if constexpr (std::remove_reference_t<decltype(tensor)>::rank == 1)
          std::fill_n(tensor.data(), tensor.size(), 5.0f);
      },
      copy);
  EXPECT_EQ(error_of([&] { load(path, copy); }), gone);
  walk(
      [](const std::string& name, const Leaf&, const auto& tensor) {
        if constexpr (std::remove_reference_t<decltype(tensor)>::rank == 1) {
          EXPECT_EQ(tensor(0), 5) << name;
        }
      },
      std::as_const(copy));
}

}  // namespace eigenformer::test
