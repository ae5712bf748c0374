// The tables of examples/anatomy, against counts by hand.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "../../examples/anatomy/models.hpp"

namespace anatomy::test {

double per_token(const Model& model, Kind kind) { return model.per_token[static_cast<std::size_t>(kind)]; }
Index parameters(const Model& model, Kind kind) { return model.parameters[static_cast<std::size_t>(kind)]; }

TEST(Anatomy, CountsPartsOfALlama) {
  const Model model =
      parse({"family=llama", "width=8", "layers=3", "heads=4", "kv_heads=2", "hidden=10", "vocabulary=7", "tied=0"});
  EXPECT_EQ(parameters(model, Kind::embedding), 7 * 8);
  EXPECT_EQ(parameters(model, Kind::projections), 3 * (8 * 8 + 4 * 8 + 4 * 8 + 8 * 8));
  EXPECT_EQ(parameters(model, Kind::feed_forward), 3 * 3 * 8 * 10);
  EXPECT_EQ(parameters(model, Kind::norms), 3 * 2 * 8 + 8);
  EXPECT_EQ(parameters(model, Kind::head), 7 * 8);
  EXPECT_EQ(per_token(model, Kind::feed_forward), 2 * 3 * 3 * 8 * 10);
  EXPECT_EQ(per_token(model, Kind::norms), 4 * (3 * 2 * 8 + 8));
  EXPECT_EQ(per_token(model, Kind::head), 2 * 7 * 8);
  EXPECT_EQ(model.scores(5), 3 * 4 * 8 * 3);  // a query meets 3 of 5 keys on average
}

TEST(Anatomy, CountsTheBytesOfFormats) {
  const Model model =
      parse({"family=llama", "width=64", "layers=1", "heads=1", "hidden=128", "vocabulary=128", "tied=1"});
  const Index matrices = 128 * 64 + 4 * 64 * 64 + 3 * 64 * 128, outputs = 128 + 4 * 64 + 2 * 128 + 64, norms = 3 * 64;
  const std::vector<std::pair<std::string, std::int64_t>> expected{
      {"float", 4 * (matrices + norms)},
      {"f16, bf16", 2 * matrices + 4 * norms},
      {"int8", matrices + 2 * outputs + 4 * norms},
      {"int8, groups of 32", matrices + matrices / 16 + 4 * norms},
      {"int4, groups of 32", matrices / 2 + matrices / 16 + 4 * norms}};
  EXPECT_EQ(model.formats, expected);
}

TEST(Anatomy, EveryKnownModelHasEachParameterInOneKind) {
  for (const Known& known : known_models) {
    const Model model = parse({std::string(known.name)});
    Index sum = 0;
    for (const Index each : model.parameters) sum += each;
    EXPECT_EQ(sum, model.root.count()) << known.name;
  }
}

TEST(Anatomy, FoldsLayersThatAreAlike) {
  const Model model = parse({"llama3-8b"});
  const Part* const decoder = model.root.find("decoder");
  ASSERT_NE(decoder, nullptr);
  const Part* const layers = decoder->find("blocks.0…31");
  ASSERT_NE(layers, nullptr);
  EXPECT_EQ(layers->copies, 32);
  EXPECT_EQ(layers->count(), 218'112'000);
}

TEST(Anatomy, WindowsLimitTheKeys) {
  const Attention attention{.heads = 1, .kv_heads = 1, .head_width = 1, .window = 2, .causal = true};
  EXPECT_EQ(attention.keys(1), 1);
  EXPECT_EQ(attention.keys(4), (1 + 2 + 2 + 2) / 4.0);
}

TEST(Anatomy, SaysWhatItKnows) {
  EXPECT_THROW(parse({"llama9"}), eigenformer::Error);
  EXPECT_THROW(parse({"llama3-8b", "size=3"}), eigenformer::Error);
  EXPECT_THROW(parse({"bert-base", "tied=1"}), eigenformer::Error);
  EXPECT_THROW(parse({"gpt2", "width=many"}), eigenformer::Error);
  EXPECT_THROW(parse({"width=8"}), eigenformer::Error);
  EXPECT_THROW(parse({"gpt2", "phi2"}), eigenformer::Error);
}

}  // namespace anatomy::test
