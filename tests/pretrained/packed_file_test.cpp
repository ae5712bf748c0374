// Packed models as files: the same bits after loading, without a copy; and everything that is refused.
#include "eigenformer/pretrained/packed_file.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "eigenformer/core/random.hpp"
#include "eigenformer/io/checkpoint.hpp"
#include "eigenformer/pretrained/hugging_face.hpp"
#include "support/error.hpp"
#include "support/files.hpp"
#include "support/tensors.hpp"

namespace eigenformer::test {
namespace {

using Path = std::filesystem::path;

Llama<float> small_llama_of_floats() {
  Llama<float> model({.vocabulary = 70,
                      .layers = 2,
                      .block = {.width = 36, .hidden = 50, .heads = 6, .dropout = 0, .attention = {.kv_heads = 2}},
                      .tied = false});
  randomize(model, 1);
  return model;
}

/// A bit of every weight: its format, and what products are made with.
template <class Model>
void expect_same_packed(const Model& loaded, const Model& saved) {
  const Context ctx;
  walk(
      [&](const std::string& path, const Leaf&, const auto& a, const auto& b) {
        if constexpr (requires { a.format(); }) {
          EXPECT_EQ(a.format(), b.format()) << path;
          ASSERT_EQ(a.shape(), b.shape()) << path;
          std::vector<float> x(static_cast<std::size_t>(a.extent(1))), y(x);
          for (Index n = 0; n < a.extent(0); ++n) {
            a.operand().column(n, x.data());
            b.operand().column(n, y.data());
            ASSERT_EQ(std::memcmp(x.data(), y.data(), x.size() * sizeof(float)), 0) << path;
          }
        }
      },
      loaded, saved);
}

PackConfig mixed() {
  return {.format = Format::int4, .keep_values = false, .format_of = [](const std::string& path) {
            std::optional<Format> format;
            if (path.starts_with("embedding")) format = Format::int8;
            if (path.starts_with("head")) format = Format::scalar;
            if (path.ends_with("up.weight")) format = Format::f16;
            if (path.ends_with("query.weight")) format = Format::bf16;
            return format;
          }};
}

TEST(PackedFile, KeepsTheBits) {
  const TemporaryFolder folder;
  const Path path = folder / "model.safetensors";
  const auto ids = random_ids(Shape{2, 9}, 0, 70, 1);
  Context ctx;
  std::vector<PackConfig> configs{mixed(), {.format = Format::int8, .group = 32, .keep_values = false}, {}};
  for (const Format format : {Format::scalar, Format::f16, Format::bf16, Format::int8, Format::int4})
    configs.push_back({.format = format, .keep_values = format == Format::bf16});
  for (const PackConfig& config : configs) {
    auto model = small_llama_of_floats();
    pack(ctx, model, config);
    save_packed(path, model, {.bos = 1, .eos = {2, 3}, .max_positions = 40, .warnings = {"the \"text\""}});
    const auto loaded = load_packed<Llama<float>>(path);
    EXPECT_EQ(loaded.model.config, model.config);
    expect_same_packed(loaded.model, model);
    EXPECT_TRUE(identical(loaded.model(ctx, {.ids = ids}), model(ctx, {.ids = ids})));
    EXPECT_EQ(loaded.facts.bos, std::optional<Id>(1));
    EXPECT_FALSE(loaded.facts.pad);
    EXPECT_EQ(loaded.facts.eos, (std::vector<Id>{2, 3}));
    EXPECT_EQ(loaded.facts.max_positions, 40);
    EXPECT_EQ(loaded.facts.warnings, (std::vector<std::string>{"the \"text\""}));

    const std::string bytes = read_file(path);  // written again, it is the same file
    save_packed(folder / "again.safetensors", loaded.model, loaded.facts);
    EXPECT_EQ(read_file(folder / "again.safetensors"), bytes);
  }
}

TEST(PackedFile, OfOtherStructures) {
  const TemporaryFolder folder;
  const Path path = folder / "model.safetensors";
  const auto ids = random_ids(Shape{2, 9}, 0, 50, 1);
  Context ctx;
  Gpt2<float> gpt2({.vocabulary = 50,  // its head is its embedding
                    .max_positions = 30,
                    .layers = 2,
                    .block = {.width = 16, .hidden = 24, .heads = 2, .dropout = 0}});
  randomize(gpt2, 2);
  pack(ctx, gpt2, {.format = Format::int8, .keep_values = false});
  save_packed(path, gpt2);
  const auto any = load_pretrained(path);
  ASSERT_TRUE(std::holds_alternative<Gpt2<float>>(any.model));
  EXPECT_TRUE(identical(std::get<Gpt2<float>>(any.model)(ctx, {.ids = ids}), gpt2(ctx, {.ids = ids})));

  T5v11<float> t5({.source_vocabulary = 50,
                   .target_vocabulary = 50,
                   .encoder_layers = 2,
                   .decoder_layers = 1,
                   .block = {.width = 16, .hidden = 24, .heads = 2, .dropout = 0}});
  randomize(t5, 3);
  pack(ctx, t5, {.format = Format::bf16, .keep_values = false});
  save_packed(path, t5, {.decoder_start = 0});
  const auto loaded = load_pretrained(path);
  ASSERT_TRUE(std::holds_alternative<T5v11<float>>(loaded.model));  // T5 has other networks and the same config
  EXPECT_TRUE(identical(std::get<T5v11<float>>(loaded.model)(ctx, {.source = ids, .target = ids}),
                        t5(ctx, {.source = ids, .target = ids})));
  EXPECT_EQ(loaded.facts.decoder_start, std::optional<Id>(0));

  const Llama<double> wide({.vocabulary = 50, .layers = 1, .block = {.width = 16, .hidden = 24, .heads = 4}});
  auto doubles = wide;
  randomize(doubles, 4);
  save_packed(path, doubles);
  EXPECT_TRUE(identical(load_packed<Llama<double>>(path).model(ctx, {.ids = ids}), doubles(ctx, {.ids = ids})));
}

TEST(PackedFile, OutlivesItsName) {
  const TemporaryFolder folder;
  const Path path = folder / "model.safetensors";
  const auto ids = random_ids(Shape{2, 9}, 0, 70, 1);
  Context ctx;
  auto model = small_llama_of_floats();
  pack(ctx, model, {.format = Format::int4, .keep_values = false});
  save_packed(path, model);
  auto copy = load_packed<Llama<float>>(path).model;  // a copy of what is gone
  auto other = small_llama_of_floats();
  save_packed(path, other);
  std::filesystem::remove(path);
  EXPECT_TRUE(identical(copy(ctx, {.ids = ids}), model(ctx, {.ids = ids})));
  walk(
      [](const std::string& weight, const Leaf&, const auto& a, const auto& b) {
        if constexpr (requires { a.format(); }) {
          EXPECT_EQ(a.bytes(), b.bytes()) << weight;
        }
      },
      copy, model);
  EXPECT_EQ(error_of([&] { set_zero(copy); }),
            "[embedding.weight] its values were given up by pack(): this weight serves inference alone");
}

TEST(PackedFile, WordsBeginOnACacheLine) {
  const TemporaryFolder folder;
  const Path path = folder / "model.safetensors";
  Context ctx;
  auto model = small_llama_of_floats();
  pack(ctx, model, mixed());
  save_packed(path, model);
  const Safetensors file(path);
  for (const auto& [name, stored] : file.tensors()) {
    if (stored.dtype == "F32") continue;
    EXPECT_EQ((file.data_begin() + stored.begin) % 64, 0u) << name;
  }
}

/// A file in parts, to be broken: its header as JSON, the JSON in its metadata, and its data.
struct Parts {
  nlohmann::json header, config, packed, facts;
  std::string data;

  explicit Parts(const std::string& bytes) {
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data(), 8);
    header = nlohmann::json::parse(bytes.substr(8, length));
    data = bytes.substr(8 + length);
    const auto read = [&](const char* key) { return nlohmann::json::parse(text(key).get<std::string>()); };
    config = read("config"), packed = read("packed"), facts = read("facts");
  }
  nlohmann::json& text(const std::string& key) { return header["__metadata__"]["eigenformer." + key]; }
  std::string bytes(std::size_t shift = 0) {
    text("config") = config.dump(), text("packed") = packed.dump(), text("facts") = facts.dump();
    return bytes_as_they_are(shift);
  }
  std::string bytes_as_they_are(std::size_t shift = 0) const {
    std::string dumped = header.dump();
    dumped.resize((dumped.size() + 7) / 8 * 8 + shift, ' ');
    return safetensors_bytes(dumped, data);
  }
};

TEST(PackedFile, BrokenFilesAreErrors) {
  const TemporaryFolder folder;
  const Path path = folder / "model.safetensors", broken = folder / "broken.safetensors";
  Context ctx;
  auto model = small_llama_of_floats();
  pack(ctx, model, mixed());
  save_packed(path, model);
  const std::string whole = read_file(path);
  const auto refusal = [&](const std::string& bytes) {
    write_file(broken, bytes);
    const std::string error = error_of([&] { load_packed<Llama<float>>(broken); });
    expect_contains(error, "broken.safetensors");
    return error;
  };
  const auto expect_refused = [&](auto&& change, const std::string& reason) {
    Parts parts(whole);
    change(parts);
    expect_contains(refusal(parts.bytes()), reason);
  };
  EXPECT_NO_THROW((write_file(broken, Parts(whole).bytes()), load_packed<Llama<float>>(broken)));

  const std::string down = "decoder.blocks.0.feed_forward.down.weight", up = "decoder.blocks.0.feed_forward.up.weight";
  // sizes
  expect_contains(refusal(""), "the file has 0 bytes");
  for (const std::size_t length : {std::size_t{7}, std::size_t{100}, whole.size() / 2, whole.size() - 1})
    refusal(whole.substr(0, length));
  expect_contains(refusal(whole + '\0'), "bytes of data");
  // the metadata
  expect_refused([](Parts& p) { p.packed["embedding.weight"]["format"] = "int5"; },
                 "embedding.weight.format is \"int5\", but must be one of scalar, f16, bf16, int8, int4");
  expect_refused([](Parts& p) { p.packed["embedding.weight"]["format"] = "scalar"; }, "scalar, which has no words");
  expect_refused([&](Parts& p) { p.packed[down]["group"] = 48; }, ".group is 48, which int4 cannot have");
  expect_refused([&](Parts& p) { p.packed[down]["group"] = 0; }, ".group is 0, which int4 cannot have");
  expect_refused([&](Parts& p) { p.packed[down]["group"] = -32; }, ".group is -32, which int4 cannot have");
  expect_refused([&](Parts& p) { p.packed[up]["group"] = 32; }, ".group is 32, which f16 cannot have");
  expect_refused([&](Parts& p) { p.packed[down]["unit_exponent"] = 128; }, ".unit_exponent is 128");
  expect_refused([&](Parts& p) { p.packed[down]["unit_exponent"] = 0.5; }, "but must be a whole number");
  expect_refused([&](Parts& p) { p.packed[up]["unit_exponent"] = 1; }, ".unit_exponent is 1, which f16 cannot have");
  expect_refused([&](Parts& p) { p.packed[down].erase("group"); }, ".group is missing");
  expect_refused([&](Parts& p) { p.packed["decoder.norm.weight"] = p.packed[up]; },
                 "decoder.norm.weight is no matrix of float of this model");
  expect_refused([](Parts& p) { p.packed = 1; }, "eigenformer.packed is no object");
  expect_refused([](Parts& p) { p.facts["eos"] = {-1}; }, "has a token -1");
  expect_refused([](Parts& p) { p.facts["max_positions"] = -5; }, "says max_positions -5");
  expect_refused([](Parts& p) { p.facts["warnings"] = {1}; }, "but must be a text");
  expect_refused([](Parts& p) { p.text("family") = "gpt2"; }, "is of the family \"gpt2\", not \"llama\"");
  expect_refused([](Parts& p) { p.config["vocabulary"] = 7000000000; }, "does not describe a model");
  expect_refused([](Parts& p) { p.config["vocabulary"] = 71; }, "");  // as many panels, but the head has other rows
  expect_refused([](Parts& p) { p.config["vocabulary"] = 170; },
                 "shape: embedding.weight is (2, 9, 64), not (3, 9, 64)");
  for (const std::string key : {"packed", "facts", "family", "config"}) {
    Parts parts(whole);
    parts.header["__metadata__"].erase("eigenformer." + key);
    expect_contains(refusal(parts.bytes_as_they_are()), "its metadata have no eigenformer." + key);
  }
  {
    Parts parts(whole);
    const std::string entry = R"("embedding.weight":{"format":"int8","group":0,"unit_exponent":0})";
    parts.text("packed") = "{" + entry + "," + entry + "}";
    expect_contains(refusal(parts.bytes_as_they_are()), "says embedding.weight twice");
    parts.text("packed") = "{";
    expect_contains(refusal(parts.bytes_as_they_are()), "is no JSON");
    parts.text("packed") = std::string(100000, '[');
    refusal(parts.bytes_as_they_are());
  }
  // tensors
  const std::string scales = down + ".scales";
  expect_refused([&](Parts& p) { p.header[down]["dtype"] = "F32"; }, "dtype: " + down + " is F32");
  expect_refused([&](Parts& p) { p.header[down]["dtype"] = "I32"; }, "dtype: " + down + " is I32");
  expect_refused([&](Parts& p) { p.header[scales]["dtype"] = "BF16"; }, "dtype: " + scales + " is BF16");
  expect_refused([&](Parts& p) { p.header["decoder.norm.weight"]["dtype"] = "I32"; }, "dtype: decoder.norm.weight");
  expect_refused(
      [&](Parts& p) {
        auto& shape = p.header[down]["shape"];
        std::swap(shape[1], shape[2]);
      },
      "shape: " + down);
  expect_refused([&](Parts& p) { p.packed.erase(down); }, "extra: " + scales);
  expect_refused([&](Parts& p) { p.packed[down]["format"] = "int8"; }, "shape: " + down);
  expect_refused(
      [&](Parts& p) {
        p.header["nobody"] = p.header[down];
        p.header.erase(down);
      },
      "missing: " + down);
  {
    Parts parts(whole);
    expect_contains(refusal(parts.bytes(1)), "no multiple of 4");
    expect_contains(refusal(parts.bytes(2)), "no multiple of 4");
  }
  // other files
  const std::string none = error_of([&] { load_packed<Llama<float>>(folder / "none"); });
  expect_contains(none, "there is no such file");
  save(broken, small_llama_of_floats());
  expect_contains(error_of([&] { load_packed<Llama<float>>(broken); }), "was not written by save_packed()");
  EXPECT_EQ(error_of([&] { load_pretrained(path, {.format = Format::int8}); }),
            "[pretrained] " + path.string() +
                ": is packed already, as its weights were when it was saved: it is read without a format");
}

TEST(PackedFile, AnyByteOfTheHeaderMayBeAnother) {
  const TemporaryFolder folder;
  const Path path = folder / "model.safetensors";
  Context ctx;
  auto model = small_llama_of_floats();
  pack(ctx, model, mixed());
  save_packed(path, model);
  const std::string whole = read_file(path);
  const auto header = static_cast<Index>(Safetensors(path).data_begin());
  RandomSequence random(1, 1);
  Index refused = 0;
  for (int i = 0; i < 300; ++i) {
    std::string bytes = whole;
    bytes[static_cast<std::size_t>(random.below(header))] = "0123456789\"{}[],:-x"[random.below(19)];
    write_file(path, bytes);
    try {
      load_packed<Llama<float>>(path);
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 200);
}

TEST(PackedFile, TheTokenizerLiesBesideIt) {
  const TemporaryFolder folder, source;
  const Path path = folder / "model.safetensors";
  write_file(source / "tokenizer.json", "{}");
  write_file(source / "other.json", "");
  const auto model = small_llama_of_floats();
  save_packed(path, model, {}, {.tokenizer = source / ""});
  EXPECT_EQ(read_file(folder / "tokenizer.json"), "{}");
  EXPECT_EQ(folder.count(), 2);
  save_packed(path, model, {}, {.tokenizer = source / ""});  // the same is no obstacle
  save_packed(path, model, {}, {.tokenizer = folder / ""});
  write_file(source / "tokenizer.json", "[]");
  std::filesystem::remove(path);
  expect_contains(error_of([&] { save_packed(path, model, {}, {.tokenizer = source / ""}); }),
                  "tokenizer.json: is of another model's tokenizer");
  EXPECT_EQ(folder.count(), 1);
}

}  // namespace
TEST(PackedFile, TellsTheKindsOfParts) {
  using Bent = LanguageModel<EncoderBlock<PreNorm<float>, Attention<float>, Mlp<float, Gelu>>>;
  using Straight = LanguageModel<EncoderBlock<PreNorm<float>, Attention<float>, Mlp<float, Relu>>>;
  Bent model({.vocabulary = 20, .layers = 1, .block = {.width = 16, .hidden = 24, .heads = 2, .dropout = 0}});
  randomize(model, 1);
  Context ctx;
  pack(ctx, model, {.format = Format::int8, .keep_values = false});
  const TemporaryFolder folder;
  save_packed(folder / "bent.safetensors", model);
  load_packed<Bent>(folder / "bent.safetensors");
  const std::string error = error_of([&] { load_packed<Straight>(folder / "bent.safetensors"); });
  EXPECT_NE(error.find("kind: decoder.blocks.feed_forward"), std::string::npos) << error;
}

}  // namespace eigenformer::test
