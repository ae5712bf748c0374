// Saving and loading whole models.
#include "eigenformer/io/checkpoint.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "eigenformer/block/post_norm.hpp"
#include "eigenformer/block/pre_norm.hpp"
#include "eigenformer/model/encoder_decoder.hpp"
#include "support/files.hpp"
#include "support/tensors.hpp"

namespace eigenformer::test {
namespace {

EncoderDecoder<>::Config small(Sharing sharing = Sharing::all) {
  return {.source_vocabulary = 11,
          .target_vocabulary = 11,
          .encoder_layers = 2,
          .decoder_layers = 1,
          .block = {.width = 8, .hidden = 12, .heads = 2},
          .sharing = sharing};
}

template <class Model>
std::string bits(const Model& model) {
  std::string all;
  walk(
      [&](const std::string& name, const Leaf&, const auto& x) {
        all.append(name).append(reinterpret_cast<const char*>(x.data()),
                                static_cast<std::size_t>(x.size()) * sizeof(*x.data()));
      },
      model);
  return all;
}

/// A table that may also be the head.
struct Tied {
  Tensor<float, 2> table{Shape{3, 2}};
  std::optional<Tensor<float, 2>> untied{};

  static void visit(auto&& f, auto&... m) {
    f(Leaf{"embedding.weight"}, m.table...);
    if ((m.untied.has_value() && ...)) f(Leaf{"head.weight"}, *m.untied...);
  }
};

/// One of each kind.
struct Mixed {
  Tensor<float, 2> weight{Shape{2, 2}};
  Tensor<double, 1> scale{Shape{3}};
  Tensor<std::int32_t, 1> steps{Shape{2}};
  Tensor<bool, 1> mask{Shape{2}};
  Tensor<float, 2> unused;  // not given: in no file

  static void visit(auto&& f, auto&... m) {
    f(Leaf{"weight"}, m.weight...);
    f(Leaf{"scale"}, m.scale...);
    f(Leaf{"steps"}, m.steps...);
    f(Leaf{"mask"}, m.mask...);
    f(Leaf{"unused"}, m.unused...);
  }
};

class CheckpointTest : public testing::Test {
 protected:
  TemporaryFolder folder;
  std::filesystem::path path = folder / "model.safetensors";

  /// Six floats per name.
  void write_tables(const std::vector<std::pair<std::string, float>>& tables) {
    SafetensorsWriter writer;
    std::vector<Tensor<float, 2>> values;
    for (const auto& [name, first] : tables) {
      values.emplace_back(Shape{3, 2});
      values.back()(0, 0) = first;
      writer.add(name, values.back().view());
    }
    writer.write(path);
  }
};

TEST_F(CheckpointTest, SaveLoadIdentity) {
  for (const Sharing sharing : {Sharing::all, Sharing::target_and_output, Sharing::none}) {
    EncoderDecoder<PreNorm<float>> model(small(sharing)), loaded(small(sharing));
    randomize(model, 1);
    randomize(loaded, 2);
    const float* const where = loaded.embedding.weight.data();
    save(path, model, {{"vocabulary", "11"}});
    EXPECT_EQ(load(path, loaded), (Metadata{{"vocabulary", "11"}}));
    EXPECT_EQ(bits(loaded), bits(model));
    EXPECT_EQ(loaded.embedding.weight.data(), where);

    const auto source = random_ids(Shape{2, 5}, 0, 11, 3), target = random_ids(Shape{2, 4}, 0, 11, 4);
    Context ctx;
    const auto x = model(ctx, {.source = source, .target = target}),
               y = loaded(ctx, {.source = source, .target = target});
    EXPECT_EQ(std::memcmp(x.data(), y.data(), static_cast<std::size_t>(x.size()) * sizeof(float)), 0);

    const Safetensors file(path);
    Index count = 0;
    for (const auto& [name, stored] : file.tensors()) count += static_cast<Index>(stored.end - stored.begin) / 4;
    EXPECT_EQ(count, parameter_count(model));  // a tied table once
    EXPECT_EQ(file.find("head.weight") != nullptr, sharing == Sharing::none);
    EXPECT_NE(file.find("encoder.blocks.1.attention_residual.norm.weight"), nullptr);
  }
  EXPECT_EQ(folder.count(), 1);
}

TEST_F(CheckpointTest, FromFloatToDoubleAndBack) {
  EncoderDecoder<PostNorm<float>> model(small()), back(small());
  EncoderDecoder<PostNorm<double>> wide(small());
  randomize(model, 1);
  save(path, model);
  load(path, wide);
  EXPECT_EQ(wide.embedding.weight(3, 4), static_cast<double>(model.embedding.weight(3, 4)));
  save(path, wide);
  load(path, back);
  EXPECT_EQ(bits(back), bits(model));
}

TEST_F(CheckpointTest, OtherKinds) {
  Mixed a, b;
  a.weight(1, 0) = 0.1f, a.scale(2) = 0.1, a.steps(0) = -7, a.mask(1) = true;
  save(path, a);
  load(path, b);
  EXPECT_EQ(bits(a), bits(b));
}

TEST_F(CheckpointTest, OneErrorListsAllProblems) {
  SafetensorsWriter writer;
  const Tensor<float, 2> weight(Shape{2, 3});
  const Tensor<std::int64_t, 1> scale(Shape{3});
  const Tensor<float, 1> other(Shape{4});
  const Tensor<bool, 1> mask(Shape{2});
  writer.add("weight", weight.view());
  writer.add("scale", scale.view());
  writer.add("mask", mask.view());
  writer.add("other", other.view());
  writer.add("another", other.view());
  writer.write(path);

  Mixed model;
  model.mask(0) = true;
  const std::string before = bits(model);
  EXPECT_EQ(error_of([&] { load(path, model); }), "[load] " + path.string() +
                                                      " does not fit the model:"
                                                      "\n  shape: weight is (2, 3), not (2, 2)"
                                                      "\n  dtype: scale is I64, which cannot be read as F64"
                                                      "\n  missing: steps (2)"
                                                      "\n  extra: another (4)"
                                                      "\n  extra: other (4)");
  EXPECT_EQ(bits(model), before);
}

TEST_F(CheckpointTest, ExtraTensorsMayBeAllowed) {
  write_tables({{"embedding.weight", 1.f}, {"position", 2.f}});
  Tied model;
  expect_contains(error_of([&] { load(path, model); }), "\n  extra: position (3, 2)");
  EXPECT_EQ(model.table(0, 0), 0);
  load(path, model, {.allow_extra = true});
  EXPECT_EQ(model.table(0, 0), 1);
}

TEST_F(CheckpointTest, TiedAndUntiedHeads) {
  const LoadOptions either{.aliases = {{"embedding.weight", {"head.weight", "lm_head.weight"}}}};
  {
    SCOPED_TRACE("tied, and no head in the file");
    write_tables({{"embedding.weight", 1.f}});
    Tied model;
    load(path, model, either);
    EXPECT_EQ(model.table(0, 0), 1);
  }
  {
    SCOPED_TRACE("tied, and only the head in the file");
    write_tables({{"head.weight", 2.f}});
    Tied model;
    expect_contains(error_of([&] { load(path, model); }),
                    "\n  missing: embedding.weight (3, 2)\n  extra: head.weight (3, 2)");
    load(path, model, either);
    EXPECT_EQ(model.table(0, 0), 2);
  }
  {
    SCOPED_TRACE("tied, and both in the file");
    write_tables({{"embedding.weight", 3.f}, {"lm_head.weight", 3.f}});
    Tied model;
    load(path, model, either);
    EXPECT_EQ(model.table(0, 0), 3);
    write_tables({{"embedding.weight", 4.f}, {"lm_head.weight", 5.f}});
    expect_contains(error_of([&] { load(path, model, either); }),
                    "embedding.weight and lm_head.weight are one tensor, but differ");
    EXPECT_EQ(model.table(0, 0), 3);
  }
  {
    SCOPED_TRACE("untied: each tensor must be there under its own name");
    Tied model;
    model.untied.emplace(Shape{3, 2});
    write_tables({{"embedding.weight", 6.f}});
    expect_contains(error_of([&] { load(path, model, either); }), "\n  missing: head.weight (3, 2)");
    write_tables({{"head.weight", 7.f}});
    expect_contains(error_of([&] { load(path, model, either); }), "\n  missing: embedding.weight (3, 2)");
    EXPECT_EQ(model.table(0, 0), 0);
    EXPECT_EQ((*model.untied)(0, 0), 0);
    write_tables({{"embedding.weight", 8.f}, {"head.weight", 9.f}});
    load(path, model, either);
    EXPECT_EQ(model.table(0, 0), 8);
    EXPECT_EQ((*model.untied)(0, 0), 9);
  }
}

TEST_F(CheckpointTest, NothingChangesOnAnyError) {
  Mixed model;
  model.weight(0, 0) = 1;
  save(path, model, {{"a", "b"}});
  const std::string whole = read_file(path), before = bits(model);

  Mixed target = model;
  const auto refuse = [&](const std::string& content) {
    write_file(path, content);
    error_of([&] { load(path, target); });
    ASSERT_EQ(bits(target), before);
  };
  for (std::size_t size = 0; size < whole.size(); size += 5) refuse(whole.substr(0, size));
  refuse(whole.substr(0, whole.size() - 1));
  refuse(whole + "x");
  refuse(whole.substr(0, whole.size() - 1) + "\2");  // the last element of `mask`, read last

  std::filesystem::remove(path);
  expect_contains(error_of([&] { load(path, target); }), path.string() + ": there is no such file");
  EXPECT_EQ(bits(target), before);
}

TEST_F(CheckpointTest, PackedCopiesStayOnAnError) {
  EncoderDecoder<PreNorm<float>> model(small(Sharing::all));
  randomize(model, 1);
  Context ctx;
  pack(ctx, model);
  const auto& weight = model.encoder.blocks[0].feed_forward.up.weight;
  write_tables({{"other", 1.0f}});
  EXPECT_THROW(load(path, model), Error);
  EXPECT_TRUE(weight.operand().is_packed());
  save(path, model);
  load(path, model);
  EXPECT_FALSE(weight.operand().is_packed()) << "new values";
}

TEST_F(CheckpointTest, ANumberThatDoesNotFitChangesNothing) {
  SafetensorsWriter writer;
  Mixed stored, model;
  Tensor<std::int64_t, 1> steps(Shape{2});
  stored.weight(0, 0) = 1;
  steps(1) = std::int64_t{1} << 40;
  writer.add("weight", stored.weight.view());
  writer.add("scale", stored.scale.view());
  writer.add("steps", steps.view());
  writer.add("mask", stored.mask.view());
  writer.write(path);
  expect_contains(error_of([&] { load(path, model); }), "element 1 of tensor \"steps\" does not fit I32");
  EXPECT_EQ(model.weight(0, 0), 0);

  Tensor<double, 2> wide(Shape{3, 2});
  wide(0, 0) = 1, wide(1, 1) = 1e300;
  SafetensorsWriter other;
  other.add("embedding.weight", wide.view());
  other.write(path);
  Tied tied;
  expect_contains(error_of([&] { load(path, tied); }), "element 3 of tensor \"embedding.weight\" does not fit F32");
  EXPECT_EQ(tied.table(0, 0), 0);
}

// What nobody can see beforehand is said: the file ends earlier than when it was opened.
TEST_F(CheckpointTest, AReadErrorInTheMiddleIsToldApart) {
  Tied stored, model;
  save(path, stored);
  Safetensors file(path);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  const std::string error = error_of([&] { load(file, model); });
  expect_contains(error, path.string() + ": the model is partly overwritten and must not be used");
  expect_contains(error, "cut off");
}

TEST_F(CheckpointTest, FromMemory) {
  Mixed stored, model;
  stored.weight(0, 1) = 3;
  save(path, stored, {{"a", "b"}});
  Safetensors file(std::make_unique<std::istringstream>(read_file(path)), "memory");
  EXPECT_EQ(load(file, model), (Metadata{{"a", "b"}}));
  EXPECT_EQ(bits(model), bits(stored));
  Tied other;
  expect_contains(error_of([&] { load(file, other); }), "[load] memory does not fit the model:\n  missing: embedding");
}

/// A mask that may have another name.
struct Masked {
  Tensor<bool, 1> mask{Shape{3}};
  static void visit(auto&& f, auto&... m) { f(Leaf{"mask"}, m.mask...); }
};

// Copies are compared before anything changes, in every kind and beyond the first chunk.
TEST_F(CheckpointTest, AllContradictionsAreToldBeforeAnythingChanges) {
  const LoadOptions either{.aliases = {{"mask", {"other", "third"}}}};
  Masked masked, differs;
  masked.mask(2) = true;
  SafetensorsWriter writer;
  writer.add("mask", masked.mask.view());
  writer.add("other", differs.mask.view());
  writer.add("third", differs.mask.view());
  writer.write(path);
  Masked model;
  expect_contains(error_of([&] { load(path, model, either); }),
                  "\n  contradiction: mask and other are one tensor, but differ"
                  "\n  contradiction: mask and third are one tensor, but differ");
  EXPECT_FALSE(model.mask(2));

  Tied large, loaded;
  large.table = loaded.table = Tensor<float, 2>(Shape{20'000, 2});
  Tensor<double, 2> copy(Shape{20'000, 2});
  large.table(19'999, 1) = 1, copy(19'999, 1) = 2;
  SafetensorsWriter tables;
  tables.add("embedding.weight", large.table.view());
  tables.add("head.weight", copy.view());
  tables.write(path);
  const LoadOptions tied{.aliases = {{"embedding.weight", {"head.weight"}}}};
  expect_contains(error_of([&] { load(path, loaded, tied); }), "embedding.weight and head.weight are one tensor");
  EXPECT_EQ(loaded.table(19'999, 1), 0);
  copy(19'999, 1) = 1;
  tables.write(path);
  load(path, loaded, tied);
  EXPECT_EQ(loaded.table(19'999, 1), 1);
}

TEST_F(CheckpointTest, AFailedSaveKeepsTheOldFile) {
  const Mixed model;
  save(path, model);
  const std::string before = read_file(path);
  expect_contains(error_of([&] { save(path, model, {{"a", "\xff"}}); }), "not UTF-8");
  expect_contains(error_of([&] { save(folder / "none/model", model); }), "cannot create a file there");
  EXPECT_EQ(read_file(path), before);
  EXPECT_EQ(folder.count(), 1);
}

}  // namespace
}  // namespace eigenformer::test
