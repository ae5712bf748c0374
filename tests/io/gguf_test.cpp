// The GGUF format: what is read, bit by bit, and everything that is refused.
#include "eigenformer/io/gguf.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "eigenformer/io/safetensors.hpp"
#include "support/gguf.hpp"
#include "support/shared_data.hpp"

namespace eigenformer::test {
namespace {

Gguf open_bytes(const std::string& bytes) { return {std::make_unique<std::istringstream>(bytes), "file"}; }

std::vector<float> read_all(Gguf& file, const std::string& name) {
  const StoredTensor* const stored = file.find(name);
  if (!stored) return {};
  std::vector<float> values(static_cast<std::size_t>(detail::count_of(*stored)));
  file.read_part(name, 0, View<float, 1>(values.data(), Shape{static_cast<Index>(values.size())}));
  return values;
}

/// A block: bytes at places, zeros elsewhere.
std::string block_of(std::size_t size, const std::map<std::size_t, std::string>& parts) {
  std::string block(size, '\0');
  for (const auto& [place, bytes] : parts) block.replace(place, bytes.size(), bytes);
  return block;
}

/// The values of one block: `rest`, but for some places.
void expect_block(const char* type, const std::string& block, float rest, const std::map<std::size_t, float>& others) {
  const GgufType* const known = find_gguf_type(type);
  ASSERT_NE(known, nullptr) << type;
  ASSERT_EQ(static_cast<std::size_t>(known->bytes), block.size()) << type;
  Gguf file = open_bytes(GgufBytes().tensor("t", {static_cast<std::uint64_t>(known->block)}, known->id, block).bytes());
  const std::vector<float> values = read_all(file, "t");
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(values[i], others.contains(i) ? others.at(i) : rest) << type << " element " << i;
}

/// The group from `first` on is `value`, but for some places.
std::map<std::size_t, float> group(std::size_t first, std::size_t count, float value,
                                   std::map<std::size_t, float> others) {
  for (std::size_t i = first; i < first + count; ++i) others.emplace(i, value);
  return others;
}

GgufBytes small_file() {
  GgufBytes file;
  return file.key("general.architecture", "test")
      .tensor("a", {2, 3}, {0.5f, 1.5f, 2.5f, 3.5f, 4.5f, 5.5f})
      .tensor("b", {4}, {0, -1, 2, -3});
}

}  // namespace

// Worked out by hand from the layouts: 0x3C00 is 1 as a half, 0x3800 0.5, 0x4000 2, 0xBC00 −1.
TEST(GgufBlocks, AreDecoded) {
  expect_block("F32", bytes_of(-0.1f), -0.1f, {});
  expect_block("F16", {"\x55\x35", 2}, 0.333251953125f, {});
  expect_block("BF16", {"\x40\xC0", 2}, -3, {});
  expect_block("Q8_0", block_of(34, {{0, {"\0\x34", 2}}, {7, "\x80"}, {33, "\x7F"}}), 0, {{5, -32}, {31, 31.75f}});
  expect_block("Q4_0", block_of(18, {{0, {"\0\x40", 2}}, {2, "\x9F"}}), -16, {{0, 14}, {16, 2}});
  expect_block("Q4_1", block_of(20, {{0, {"\0\x38\0\xBC", 4}}, {7, "\x52"}}), -1, {{3, 0}, {19, 1.5f}});
  expect_block("Q5_0", block_of(22, {{0, {"\0\x3C", 2}}, {2, {"\x01\0\x02", 3}}, {6, "\x03"}}), -16, {{0, 3}, {17, 0}});
  expect_block("Q5_1", block_of(24, {{0, {"\0\x3C\0\x38", 4}}, {7, "\x80"}, {23, "\xA0"}}), 0.5f, {{31, 26.5f}});
  expect_block("IQ4_NL", block_of(18, {{0, {"\0\x3C", 2}}, {2, "\xF0"}}), -127, {{16, 113}});
  expect_block("MXFP4", block_of(17, {{0, "\x80"}, {3, "\xF1"}}), 0, {{2, 1}, {18, -12}});
  expect_block("MXFP4", block_of(17, {{1, "\x01"}}), 0, {{0, std::ldexp(1.0f, -128)}});
}

TEST(GgufBlocks, OfKTypesAreDecoded) {
  // Groups 0, 2, 4, 6 and 9 have scales; the codes of byte 0 belong to elements 0, 32, 64 and 96.
  expect_block("Q2_K",
               block_of(84, {{0, "\x23"},
                             {2, "\x02"},
                             {4, "\x01"},
                             {6, "\x0F"},
                             {9, "\x14"},
                             {16, "\xE4"},
                             {64, "\x01"},
                             {80, {"\0\x3C\0\x38", 4}}}),
               0, group(0, 16, -1, group(144, 16, -0.5f, {{32, 2}, {64, 2}, {96, 45}, {144, 3.5f}})));
  // A scale that is not said is −32. Bits 0 and 7 of the first byte are the third bits of elements 0 and 224.
  expect_block("Q3_K", block_of(110, {{0, "\x81"}, {32, "\x02"}, {97, "\x50"}, {105, "\x20"}, {108, {"\0\x3C", 2}}}),
               128, group(144, 16, -20, {{0, -64}, {224, 0}}));
  // Group 1 has scale 3 and least value 4, group 6 18 and 39.
  const std::map<std::size_t, std::string> scales{
      {0, {"\0\x3C\0\x38", 4}}, {5, "\x03"}, {6, "\x40"}, {9, "\x04"}, {10, "\x80"}, {14, "\x72"}};
  auto parts = scales;
  parts.insert({{16, "\x50"}, {143, "\x0F"}});
  expect_block("Q4_K", block_of(144, parts), 0, group(32, 32, -2, group(192, 32, -19.5f, {{32, 13}, {223, 250.5f}})));
  parts = scales;
  parts.insert({{16, "\x02"}, {47, "\x40"}, {48, "\x50"}, {175, "\x0F"}});
  expect_block("Q5_K", block_of(176, parts), 0, group(32, 32, -2, group(192, 32, -19.5f, {{32, 61}, {223, 538.5f}})));
  // Group 0 has scale 2, group 15 −3; a code that is not said is −32.
  expect_block("Q6_K",
               block_of(210, {{0, "\x05"},
                              {127, "\xF0"},
                              {128, "\x02"},
                              {191, "\xC0"},
                              {192, "\x02"},
                              {207, "\xFD"},
                              {208, {"\0\x38", 2}}}),
               0, group(0, 16, -32, group(240, 16, 48, {{0, 5}, {255, -46.5f}})));
  // A scale that is not said is −32, that of group 3 is 1.
  expect_block("IQ4_XS", block_of(136, {{0, {"\0\x3C", 2}}, {2, "\x80"}, {5, "\x10"}, {56, "\x87"}}), 4064,
               group(96, 32, -127, {{96, -10}, {112, 1}}));
}

TEST(Gguf, ReadsKeysAndTensors) {
  GgufBytes bytes = small_file();
  bytes.key("u8", 0, "\xFF").key("i16", 3, bytes_of(std::int16_t{-2})).key("flag", true).key("f64", 12, bytes_of(0.1));
  bytes.key("u64", 10, bytes_of((std::numeric_limits<std::uint64_t>::max)()));
  bytes.list("words", {"", "a", "\xE6\x97\xA5"}).list("none", 5, 0, "");
  for (const std::uint32_t version : {2u, 3u}) {
    bytes.version = version;
    Gguf file = open_bytes(bytes.bytes());
    const auto& keys = file.metadata();
    EXPECT_EQ(keys.size(), 8u);
    EXPECT_EQ(keys["general.architecture"], "test");
    EXPECT_EQ(keys["u8"], 255);
    EXPECT_EQ(keys["i16"], -2);
    EXPECT_EQ(keys["flag"], true);
    EXPECT_EQ(keys["f64"], 0.1);
    EXPECT_EQ(keys["u64"], 18446744073709551615u);
    EXPECT_EQ(keys["words"], (std::vector<std::string>{"", "a", "\xE6\x97\xA5"}));
    EXPECT_TRUE(keys["none"].is_array() && keys["none"].empty());
    ASSERT_NE(file.find("a"), nullptr);
    EXPECT_EQ(file.find("a")->dtype, "F32");
    EXPECT_EQ(file.find("a")->shape, (std::vector<Index>{2, 3}));
    EXPECT_EQ(file.find("c"), nullptr);
    EXPECT_EQ(read_all(file, "a"), (std::vector<float>{0.5f, 1.5f, 2.5f, 3.5f, 4.5f, 5.5f}));
    EXPECT_EQ(read_all(file, "b"), (std::vector<float>{0, -1, 2, -3}));
  }
  GgufBytes wide;
  wide.alignment = 64;
  wide.key("general.alignment", 64u).tensor("a", {1}, {1}).tensor("b", {1}, {2});
  Gguf file = open_bytes(wide.bytes());
  EXPECT_EQ(read_all(file, "b"), std::vector<float>{2});
}

TEST(Gguf, ReadsPartsRowsAndBlocks) {
  std::string blocks;  // 3 rows of 2 blocks: value i of block b is b · i
  for (int b = 0; b < 6; ++b) {
    blocks += std::string("\0\x3C", 2);
    for (int i = 0; i < 32; ++i) blocks += static_cast<char>(b * i % 128);
  }
  Gguf file = open_bytes(GgufBytes().tensor("q", {64, 3}, 8, blocks).bytes());
  const auto value = [](Index i) { return static_cast<double>(i / 32 * (i % 32) % 128); };
  for (const Index first : {0, 1, 31, 32, 70, 191, 192})
    for (const Index count : {Index{0}, Index{1}, Index{33}, 192 - first}) {
      if (count > 192 - first) continue;
      Tensor<double, 1> values(Shape{count});
      file.read_part("q", first, values.view());
      for (Index i = 0; i < count; ++i) EXPECT_EQ(values(i), value(first + i)) << first << " " << count;
    }
  Index rows = 0;
  file.read_rows<float>("q", 3, [&](Index first, ConstView<float, 2> chunk) {
    for (Index n = 0; n < chunk.extent(0); ++n, ++rows)
      for (Index i = 0; i < 64; ++i) EXPECT_EQ(chunk(n, i), value((first + n) * 64 + i));
  });
  EXPECT_EQ(rows, 3);
  std::vector<std::uint8_t> raw(68);
  file.read_blocks("q", 2, raw);  // the second row
  EXPECT_EQ(std::string(raw.begin(), raw.end()), blocks.substr(68, 68));
  expect_contains(error_of([&] { file.read_blocks("q", 5, raw); }), "has 204 bytes, not 68 from block 5 on");
  Tensor<float, 1> one(Shape{1});
  expect_contains(error_of([&] { file.read_part("q", 192, one.view()); }),
                  R"([gguf] file: tensor "q" has 192 elements, not 1 from number 192 on)");
  Gguf rare = open_bytes(GgufBytes().tensor("r", {256}, 16, std::string(66, '\0')).bytes());
  EXPECT_FALSE(Gguf::readable<float>("IQ2_XXS"));
  EXPECT_FALSE(Gguf::readable<Index>("F32"));
  expect_contains(error_of([&] { rare.read_part("r", 0, one.view()); }), "of type IQ2_XXS, which is not supported");
}

TEST(Gguf, SaysWhatIsWrong) {
  const auto refuses = [](const std::string& bytes, const std::string& reason) {
    expect_contains(error_of([&] { open_bytes(bytes); }), "[gguf] file: " + reason);
  };
  const auto word = [](std::uint64_t value) { return bytes_of(value); };
  const std::string good = small_file().bytes();
  refuses("", "ends within the header: it wants 4 bytes, but only 0 follow");
  refuses("GGML" + good.substr(4), "does not begin with GGUF");
  refuses(std::string("GGUF\0\0\0\3", 8) + good.substr(8), "is big-endian, which is not supported");
  for (const std::uint32_t version : {0u, 1u, 4u}) {
    GgufBytes other = small_file();
    other.version = version;
    refuses(other.bytes(), "is of version " + std::to_string(version) + ", but only 2 and 3 are supported");
  }
  GgufBytes many = small_file();
  many.tensor_count = std::uint64_t{1} << 60;
  refuses(many.bytes(), "has 1152921504606846976 tensors by its header, but only 184 bytes follow");
  many = small_file();
  many.key_count = std::uint64_t{1} << 61;
  refuses(many.bytes(), "has 2305843009213693952 keys by its header, but only 184 bytes follow");
  for (std::size_t size = 0; size < good.size(); ++size) error_of([&] { open_bytes(good.substr(0, size)); });

  refuses(small_file().key("", 1u).bytes(), "has an empty key");
  refuses(small_file().key("k", 1u).key("k", 2u).bytes(), R"(has key "k" twice)");
  refuses(small_file().key("k", 13, word(0)).bytes(), R"(key "k" is of the unknown type 13)");
  refuses(small_file().key("k", 7, "\x02").bytes(), R"(key "k" is 2, neither true nor false)");
  refuses(small_file().key("k", 8, word(4000)).bytes(), R"(has a text of 4000 bytes in key "k", but only)");
  refuses(small_file().list("k", 12, std::uint64_t{1} << 61, word(0)).bytes(),
          R"(key "k" would have 2305843009213693952 values, but only)");
  refuses(small_file().list("k", 8, 1000, word(0)).bytes(), R"(key "k" would have 1000 values, but only)");
  refuses(small_file().list("k", 99, 1, word(0)).bytes(), R"(key "k" is of the unknown type 99)");
  refuses(small_file().list("k", 9, 1, word(0)).bytes(), R"(key "k" is a list of lists, which is not supported)");
  refuses(small_file().key("general.alignment", 0u).bytes(), R"(key "general.alignment" is no power of two)");
  refuses(small_file().key("general.alignment", "32").bytes(), R"(key "general.alignment" is no power of two)");

  const auto with = [&](const std::string& name, const std::vector<std::uint64_t>& extents, std::uint32_t type,
                        std::size_t bytes) {
    return small_file().tensor(name, extents, type, std::string(bytes, '\0')).bytes();
  };
  refuses(with(std::string(65, 'c'), {4}, 0, 16), "tensor \"" + std::string(65, 'c') + "\" has a name of 65 bytes");
  refuses(with("a", {4}, 0, 16), R"(tensor "a" is there twice)");
  refuses(with("c", {1, 1, 1, 1, 1}, 0, 4), R"(tensor "c" has 5 axes, more than 4)");
  refuses(with("c", {std::uint64_t{1} << 32, std::uint64_t{1} << 32}, 0, 4), R"(tensor "c" is too large)");
  refuses(with("c", {~std::uint64_t{2}}, 0, 4), R"(tensor "c" is too large)");
  refuses(with("c", {4}, 200, 16), R"(tensor "c" is of the unknown type 200)");
  refuses(with("c", {32}, 4, 20), R"(tensor "c" is of the unknown type 4)");
  refuses(with("c", {48, 2}, 2, 54), R"(tensor "c" has rows of 48, which are not blocks of 32 Q4_0)");
  refuses(with("c", {4}, 0, 12), R"(tensor "c" ends at 80, but there are 76 bytes of data)");
  GgufBytes moved = small_file();
  moved.infos.replace(moved.infos.size() - 8, 8, word(~std::uint64_t{31}));
  refuses(moved.bytes(), R"(tensor "b" begins at 18446744073709551584 and has 16 bytes, but the file has only)");
  moved.infos.replace(moved.infos.size() - 8, 8, word(16));
  refuses(moved.bytes(), R"(tensor "b" begins at 16, which is no multiple of 32)");
  moved.infos.replace(moved.infos.size() - 8, 8, word(0));
  refuses(moved.bytes(), R"(tensor "b" begins at 0, but tensor "a" ends at 24)");
}

class SharedGguf : public testing::Test {
 protected:
  const std::filesystem::path folder = shared_data() / "gguf";

  void SetUp() override {
    if (!std::filesystem::exists(folder / "types/types.gguf")) GTEST_SKIP() << "the files are not here";
  }
};

// ggml's and gguf-py's values of every type.
TEST_F(SharedGguf, BlocksHaveTheBitsOfTheReference) {
  Gguf file(folder / "types/types.gguf");
  Safetensors reference(folder / "types/types.reference.safetensors");
  std::set<std::string_view> seen;
  for (const auto& [name, stored] : file.tensors()) {
    if (!Gguf::readable<float>(stored.dtype)) continue;
    const StoredTensor* const expected = reference.find(name);
    ASSERT_NE(expected, nullptr) << name;
    ASSERT_EQ(stored.shape, expected->shape) << name;
    const auto values = read_all(file, name);
    const Tensor<float, 2> wanted = reference.read<float, 2>(name);
    EXPECT_EQ(std::memcmp(values.data(), wanted.data(), values.size() * sizeof(float)), 0) << name;
    seen.insert(stored.dtype);
  }
  for (const GgufType& type : gguf_types) EXPECT_EQ(seen.contains(type.name), type.decode != nullptr) << type.name;
}

TEST_F(SharedGguf, WholeFilesAreReadAndBrokenOnesRefused) {
  // Broken as models, but not as files; and what the format does not say: extents of 0, tensors without axes.
  const std::set<std::string> also_read{"tensor-dim-zero", "tensor-dims-0"};
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "broken")) {
    if (entry.path().extension() != ".gguf") continue;
    const std::string name = entry.path().stem().string();
    ++count;
    if (name.starts_with("ok") || name.starts_with("nano-") || also_read.contains(name)) {
      Gguf file(entry.path());
      if (name.starts_with("ok") && name != "ok-no-tensors") {
        EXPECT_EQ(read_all(file, "a"), (std::vector<float>{0.5f, 1.5f, 2.5f, 3.5f, 4.5f, 5.5f}));
        EXPECT_EQ(read_all(file, "b"), (std::vector<float>{-1, 2, -3, 4}));
      }
    } else {
      error_of([&] { Gguf{entry.path()}; });
    }
  }
  EXPECT_GE(count, 40);
}

}  // namespace eigenformer::test
