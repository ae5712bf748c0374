// Real trained models in the layouts of other tools, and the numbers that those tools compute. Skipped where the files
// are not there.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <variant>
#include <vector>

#include "eigenformer/pretrained/hugging_face.hpp"
#include "support/files.hpp"
#include "support/shared_data.hpp"
#include "support/tensors.hpp"

namespace eigenformer::test {
namespace {

const std::filesystem::path real_models = shared_data();

Tensor<Id, 2> as_batch(const std::vector<Id>& ids) {
  Tensor<Id, 2> batch(Shape{Index{1}, static_cast<Index>(ids.size())});
  std::copy(ids.begin(), ids.end(), batch.data());
  return batch;
}

class StoriesTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(folder / "golden.json")) GTEST_SKIP() << "the files are not here";
  }

  /// One pass over all of the greedy ids, against the logits of the reference program.
  void expect_golden(const Llama<float>& model) {
    std::ifstream file(folder / "golden.json");
    const auto golden = nlohmann::json::parse(file);
    for (const auto& one : golden.at("greedy")) {
      auto ids = one.at("ids").get<std::vector<Id>>();
      Context ctx;
      const auto logits = model(ctx, {.ids = as_batch(ids)});
      Index compared = 0;
      for (const auto& [position, values] : one.at("logits").items()) {
        const Index n = std::stol(position);
        const auto want = values.get<std::vector<double>>();
        ASSERT_EQ(static_cast<Index>(want.size()), logits.extent(2));
        for (Index v = 0; v < logits.extent(2); ++v)
          ASSERT_NEAR(static_cast<double>(logits(0, n, v)), want[static_cast<std::size_t>(v)], 3e-5) << n << ' ' << v;
        ++compared;
      }
      EXPECT_EQ(compared, 13);
      for (std::size_t n = 0; n + 1 < ids.size(); ++n) {
        const float* const row = &logits(0, static_cast<Index>(n), 0);
        ASSERT_EQ(std::max_element(row, row + logits.extent(2)) - row, ids[n + 1]) << n;
      }
    }
  }

  std::filesystem::path folder = real_models / "stories260K";
};

TEST_F(StoriesTest, FromLlama2c) {
  const auto loaded = load_llama2c<float>(folder / "stories260K.bin");
  expect_golden(loaded.model);
  EXPECT_EQ(loaded.facts.bos, 1);
  EXPECT_EQ(loaded.facts.eos, (std::vector<Id>{1, 2}));
  EXPECT_EQ(loaded.facts.max_positions, 512);
  EXPECT_TRUE(std::holds_alternative<Llama<float>>(load_pretrained<float>(folder / "stories260K.bin").model));
}

TEST_F(StoriesTest, FromHuggingFace) {
  const auto loaded = load_hugging_face<Llama<float>>(folder / "hf");
  expect_golden(loaded.model);
  EXPECT_EQ(loaded.facts.bos, 1);
  EXPECT_EQ(loaded.facts.eos, std::vector<Id>{2});
  EXPECT_EQ(loaded.facts.pad, std::nullopt);
  EXPECT_EQ(loaded.facts.max_positions, 512);
}

TEST_F(StoriesTest, FromLlama2cToHuggingFace) {
  const TemporaryFolder to;
  const auto loaded = load_llama2c<float>(folder / "stories260K.bin");
  save_hugging_face(to / "saved", loaded.model, loaded.facts);
  // The same weights, rows permuted, as another program made them.
  expect_identical_models(load_hugging_face<Llama<float>>(to / "saved").model,
                          load_hugging_face<Llama<float>>(folder / "hf").model);
}

TEST(NanoGptSort, FromMinGpt) {
  if (!std::filesystem::exists(real_models / "nano-gpt-sort/partials.safetensors"))
    GTEST_SKIP() << "the files are not here";
  const auto loaded = load_pretrained<float>(real_models / "nano-gpt-sort");
  EXPECT_EQ(loaded.facts.max_positions, 11);
  const auto& model = std::get<Gpt2<float>>(loaded.model);
  EXPECT_FALSE(model.decoder.blocks.empty());
  Safetensors dump(real_models / "nano-gpt-sort/partials.safetensors");
  const auto stored = dump.read<float, 2>("idx");
  Tensor<Id, 2> ids(stored.shape());
  std::transform(stored.data(), stored.data() + stored.size(), ids.data(),
                 [](float id) { return static_cast<Id>(id); });
  Context ctx;
  const Tensor<float, 3> logits(model(ctx, {.ids = ids})), want = dump.read<float, 3>("lm_head");
  EXPECT_LT(difference(logits, want), 3e-6 * magnitude(want));
}

}  // namespace
}  // namespace eigenformer::test
