// Loading reads into place: whatever the types, it asks for no memory of the size of a tensor.
#include <gtest/gtest.h>

#include <string>

#include "eigenformer/io/checkpoint.hpp"
#include "eigenformer/model/decoders.hpp"
#include "support/error.hpp"
#include "support/files.hpp"

#define EIGENFORMER_COUNT_ALLOCATIONS
#include "support/allocations.hpp"

using namespace eigenformer;

namespace {

template <class T>
struct Table {
  Tensor<T, 2> values{Shape{1000, 1000}};
  static void visit(auto&& f, auto&... m) { f(Leaf{"values"}, m.values...); }
};

template <class From, class To>
void expect_small_allocations() {
  const test::TemporaryFolder folder;
  Table<From> stored;
  Table<To> loaded;
  stored.values(999, 999) = 1;
  save(folder / "x", stored);
  test::largest_allocation = 0;
  load(folder / "x", loaded, {.aliases = {{"values", {"other"}}}});
  EXPECT_LT(test::largest_allocation, 200'000u);  // of 4 or 8 million
  EXPECT_EQ(loaded.values(999, 999), To{1});
}

/// Of loading a model from a small file with another config: an Error, and nothing large was asked for.
template <class Model>
std::string refused(const Model& model, const typename Model::Config& config) {
  const test::TemporaryFolder folder;
  SafetensorsWriter writer;
  writer.metadata = {{std::string(config_key), config_text(config)}};
  walk([&](const std::string& name, const Leaf&, const auto& x) { writer.add(name, x.view()); }, model);
  writer.write(folder / "x");
  test::largest_allocation = 0;
  const std::string text = test::error_of([&] { load<Model>(folder / "x"); });
  EXPECT_LT(test::largest_allocation, std::size_t{1} << 25);
  return text;
}

}  // namespace

TEST(LoadAllocations, NoneOfTheSizeOfATensor) {
  expect_small_allocations<float, float>();
  expect_small_allocations<double, float>();
  expect_small_allocations<float, double>();
}

TEST(LoadAllocations, NoneOnTheWordOfAConfig) {
  if (sizeof(Index) < 8) GTEST_SKIP() << "sizes of 64 bits";
  using Model = Gpt2<float>;
  const Model::Config good{.vocabulary = 7, .max_positions = 9, .layers = 2, .block = {.width = 8, .heads = 2}};
  const Model model(good);
  const auto limited = [](const std::string& text, std::uint64_t bytes) {
    EXPECT_NE(text.find("its config does not describe a model: [memory] " + std::to_string(bytes) +
                        " bytes are asked for, but the limit leaves "),
              std::string::npos)
        << text;
  };
  auto bad = good;
  bad.vocabulary = 70'000'000;
  limited(refused(model, bad), 70'000'000u * 8u * 4u);
  bad = good;
  bad.each_layer.assign(2, bad.block);
  bad.each_layer[1].hidden = 20'000'000;
  limited(refused(model, bad), 20'000'000u * 8u * 4u);
  bad = good;
  bad.layers = 65536;
  limited(refused(model, bad), std::uint64_t{65536} * sizeof(Model::Block));

  using Rotated = Llama<float>;
  const Rotated none({.vocabulary = 7, .layers = 0, .block = {.width = 8, .heads = 2}});
  auto wide = none.config;
  wide.position.head_width = wide.position.rotated = wide.block.attention.head_width = 1'000'000'000;
  limited(refused(none, wide), 500'000'000u * 8u);
}
