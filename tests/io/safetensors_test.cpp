// The safetensors format: what is read, what is written, and everything that is refused.
#include "eigenformer/io/safetensors.hpp"

#include <gtest/gtest.h>
#if __has_include(<sys/resource.h>)
#include <sys/resource.h>

#include <csignal>
#endif

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "eigenformer/core/random.hpp"
#include "support/files.hpp"

namespace eigenformer::test {
namespace {

template <class T, int Rank>
Tensor<T, Rank> counting(Shape<Rank> shape, T first, T step) {
  Tensor<T, Rank> tensor(shape);
  for (Index i = 0; i < tensor.size(); ++i, first = static_cast<T>(first + step)) tensor.data()[i] = first;
  return tensor;
}

template <class T, int Rank>
void expect_same_bits(const Tensor<T, Rank>& actual, const Tensor<T, Rank>& expected) {
  ASSERT_EQ(actual.shape(), expected.shape());
  EXPECT_EQ(std::memcmp(actual.data(), expected.data(), static_cast<std::size_t>(actual.size()) * sizeof(T)), 0);
}

template <class T>
T with_bits(std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t> bits) {
  T value;  // NOLINT(cppcoreguidelines-init-variables)
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

/// Everything in the file, by whatever type it can be read as.
void read_all(Safetensors& file) {
  const auto read = [&]<class T>(T, const std::string& name, const StoredTensor& stored) {
    switch (stored.shape.size()) {
      case 0:
      case 1: return static_cast<void>(file.read<T, 1>(name));
      case 2: return static_cast<void>(file.read<T, 2>(name));
      case 3: return static_cast<void>(file.read<T, 3>(name));
      case 4: return static_cast<void>(file.read<T, 4>(name));
      default: return;
    }
  };
  for (const auto& [name, stored] : file.tensors()) {
    if (stored.dtype == "BOOL") read(false, name, stored);
    else if (stored.dtype.front() == 'I') read(std::int64_t{}, name, stored);
    else if (stored.dtype.front() == 'U') read(std::uint64_t{}, name, stored);
    else if (detail::readable<double>(stored.dtype)) read(0.0, name, stored);
  }
}

class SafetensorsTest : public testing::Test {
 protected:
  TemporaryFolder folder;
  std::filesystem::path path = folder / "x.safetensors";

  Safetensors open(const std::string& bytes) {
    write_file(path, bytes);
    return Safetensors(path);
  }
  Safetensors open(const std::string& header, const std::string& data) { return open(safetensors_bytes(header, data)); }

  /// The message about these bytes; it names the file.
  std::string refusal(const std::string& bytes) {
    const std::string message = error_of([&] { open(bytes); });
    expect_contains(message, "[safetensors] ");
    expect_contains(message, path.string());
    return message;
  }
  std::string refusal(const std::string& header, const std::string& data) {
    return refusal(safetensors_bytes(header, data));
  }
};

// ---- reading ---------------------------------------------------------------------------------------------------

TEST_F(SafetensorsTest, ReadsAFileWrittenByteByByte) {
  const std::string header = R"({"__metadata__":{"made by":"hand","ü":"\u20ac"}, "b":{"dtype":"BOOL","shape":[3],)"
                             R"("data_offsets":[40,43]},"w":{"shape":[2,3],"data_offsets":[16,40],"dtype":"F32"},)"
                             R"("n":{"dtype":"I64","shape":[2],"data_offsets":[0,16]}})";
  const unsigned char data[] = {
      0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x00, 0x01, 0, 0,    0, 0, 0, 0,  // −1, 256
      0,    0,    0x80, 0x3f, 0,    0,    0,    0xc0, 0,    0,    0, 0x3f, 0, 0, 0, 0,
      0,    0,    0,    0x80, 0,    0,    0x80, 0x7f, 1,    0,    1};
  Safetensors file = open(header, std::string(reinterpret_cast<const char*>(data), sizeof data));
  EXPECT_EQ(file.metadata(), (Metadata{{"made by", "hand"}, {"ü", "€"}}));
  EXPECT_EQ(file.tensors().size(), 3u);
  EXPECT_EQ(file.find("w")->dtype, "F32");
  EXPECT_EQ(file.find("w")->shape, (std::vector<Index>{2, 3}));
  EXPECT_EQ(file.find("W"), nullptr);

  const auto n = file.read<std::int64_t, 1>("n");
  EXPECT_EQ(n(0), -1);
  EXPECT_EQ(n(1), 256);
  const auto w = file.read<float, 2>("w");
  const float expected[] = {1, -2, 0.5f, 0, -0.0f, std::numeric_limits<float>::infinity()};
  EXPECT_EQ(std::memcmp(w.data(), expected, sizeof expected), 0);
  const auto b = file.read<bool, 1>("b");
  EXPECT_TRUE(b(0) && !b(1) && b(2));
}

TEST_F(SafetensorsTest, NumbersTooLargeForFloat) {
  constexpr double infinity = std::numeric_limits<double>::infinity(), most = std::numeric_limits<float>::max();
  constexpr double halfway = 0x1.ffffffp127;  // to what would be the next float: rounds to infinity
  const auto stored = [&](double x) {
    std::string data;
    for (const double each : {1.0, -1.0, 0.0, infinity, x, 2.0}) data += bytes_of(each);
    return open(R"({"w":{"dtype":"F64","shape":[2,3],"data_offsets":[0,48]}})", data);
  };
  for (const double x : {most, -most, std::nextafter(halfway, 0.0), 1e-300, 0.1, infinity, -infinity}) {
    const auto w = stored(x).read<float, 2>("w");
    EXPECT_EQ(w(1, 1), static_cast<float>(x));
    EXPECT_EQ(w(1, 0), HUGE_VALF);
  }
  EXPECT_EQ(static_cast<double>(stored(std::nextafter(halfway, 0.0)).read<float, 2>("w")(1, 1)), most);
  EXPECT_TRUE(std::isnan(stored(std::nan("")).read<float, 2>("w")(1, 1)));
  for (const double x : {1e300, -1e39, halfway}) {
    EXPECT_EQ(error_of([&] { stored(x).read<float, 2>("w"); }),
              "[safetensors] " + path.string() + ": element 4 of tensor \"w\" does not fit F32");
    EXPECT_EQ(error_of([&] { stored(x).read_rows<float>("w", 2, [](Index, ConstView<float, 2>) {}); }),
              "[safetensors] " + path.string() + ": element 4 of tensor \"w\" does not fit F32");
    EXPECT_EQ((stored(x).read<double, 2>("w")(1, 1)), x);
  }
}

TEST_F(SafetensorsTest, ReadsIntoPartsOfATensor) {
  Safetensors file = open(R"({"w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}})",
                          bytes_of(1.0f) + bytes_of(2.0f) + bytes_of(3.0f) + bytes_of(4.0f));
  Tensor<double, 2> table(Shape{2, 5});
  file.read("w", table.view().slice(1, 2, 2));
  const double expected[] = {0, 0, 1, 2, 0, 0, 0, 3, 4, 0};
  EXPECT_TRUE(std::equal(expected, expected + 10, table.data()));
}

TEST_F(SafetensorsTest, ASingleNumberIsOneAxisOfLengthOne) {
  Safetensors file = open(R"({"x":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})", bytes_of(7.0f));
  EXPECT_EQ((file.read<float, 1>("x")(0)), 7);
  expect_contains(error_of([&] { file.read<float, 2>("x"); }), "tensor \"x\" is of shape (), which has not 2 axes");
}

TEST_F(SafetensorsTest, AFileWithoutTensors) {
  EXPECT_TRUE(open("{}", "").tensors().empty());
  EXPECT_EQ(open(R"({"__metadata__":{"a":""}}   )", "").metadata(), (Metadata{{"a", ""}}));
}

TEST_F(SafetensorsTest, DataNeedNotBeAligned) {
  std::string header = R"({"u":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
                       R"("w":{"dtype":"F32","shape":[2],"data_offsets":[3,11]},)"
                       R"("d":{"dtype":"F64","shape":[1],"data_offsets":[11,19]},)"
                       R"("h":{"dtype":"BF16","shape":[1],"data_offsets":[19,21]}})";
  header.resize(42854, ' ');  // ≡ 2 mod 4
  Safetensors file =
      open(header, "\1\2\3" + bytes_of(1.5f) + bytes_of(-3.25f) + bytes_of(1e300) + bytes_of(std::uint16_t{0x4040}));
  EXPECT_EQ((file.read<float, 1>("w")(0)), 1.5f);
  EXPECT_EQ((file.read<double, 1>("w")(1)), -3.25);
  EXPECT_EQ((file.read<double, 1>("d")(0)), 1e300);
  EXPECT_EQ((file.read<float, 1>("h")(0)), 3.0f);
  EXPECT_EQ((file.read<std::int32_t, 1>("u")(2)), 3);
}

TEST_F(SafetensorsTest, HalfPrecisionByHand) {
  const std::pair<std::uint16_t, double> halves[] = {
      {0x0000, 0.0},      {0x3c00, 1.0},       {0xc000, -2.0},        {0x3555, 0.333251953125}, {0x7bff, 65504.0},
      {0x0400, 0x1p-14},  {0x03ff, 0x3ffp-24}, {0x0001, 0x1p-24},     {0x8001, -0x1p-24},       {0x0200, 0x1p-15},
      {0x7c00, HUGE_VAL}, {0xfc00, -HUGE_VAL}, {0x3c01, 1.0009765625}};
  const std::pair<std::uint16_t, double> brains[] = {
      {0x0000, 0.0},      {0x3f80, 1.0},       {0xc000, -2.0},     {0x3eab, 0.333984375}, {0x7f7f, 0x1.fep127},
      {0x0080, 0x1p-126}, {0x007f, 0x7fp-133}, {0x0001, 0x1p-133}, {0x8001, -0x1p-133},   {0x7f80, HUGE_VAL}};
  std::string data;
  for (const auto& [bits, value] : halves) data += bytes_of(bits);
  for (const auto& [bits, value] : brains) data += bytes_of(bits);
  Safetensors file = open(R"({"h":{"dtype":"F16","shape":[13],"data_offsets":[0,26]},)"
                          R"("b":{"dtype":"BF16","shape":[10],"data_offsets":[26,46]}})",
                          data);
  const auto check = [&](const char* name, const auto& cases) {
    const auto single = file.read<float, 1>(name);
    const auto twice = file.read<double, 1>(name);
    Index i = 0;
    for (const auto& [bits, value] : cases) {
      EXPECT_EQ(static_cast<double>(single(i)), value) << name << ' ' << bits;
      EXPECT_EQ(twice(i++), value) << name << ' ' << bits;
    }
  };
  check("h", halves);
  check("b", brains);
}

TEST_F(SafetensorsTest, EveryHalfPrecisionNumber) {
  std::string data;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) data += bytes_of(static_cast<std::uint16_t>(bits));
  Safetensors file = open(R"({"h":{"dtype":"F16","shape":[65536],"data_offsets":[0,131072]},)"
                          R"("b":{"dtype":"BF16","shape":[65536],"data_offsets":[131072,262144]}})",
                          data + data);
  // Sign, fraction and exponent by the definition of the formats, in double.
  const auto value = [](std::uint32_t bits, int fraction_bits, int exponent_bits) {
    const int exponent = static_cast<int>(bits >> fraction_bits) & ((1 << exponent_bits) - 1),
              bias = (1 << (exponent_bits - 1)) - 1;
    const double fraction = std::ldexp(bits & ((1u << fraction_bits) - 1), -fraction_bits);
    const double size = exponent == 2 * bias + 1 ? (fraction > 0 ? NAN : HUGE_VAL)
                        : exponent == 0          ? std::ldexp(fraction, 1 - bias)
                                                 : std::ldexp(1 + fraction, exponent - bias);
    return std::copysign(size, bits >> 15 ? -1.0 : 1.0);
  };
  const auto h = file.read<double, 1>("h"), b = file.read<double, 1>("b");
  int wrong = 0;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto same = [](double x, double y) {
      return (std::isnan(x) && std::isnan(y)) || (x == y && std::signbit(x) == std::signbit(y));
    };
    wrong += !same(h(bits), value(bits, 10, 5)) + !same(b(bits), value(bits, 7, 8));
  }
  EXPECT_EQ(wrong, 0);
}

TEST_F(SafetensorsTest, UnsupportedDtypesMatterOnlyWhenAskedFor) {
  Safetensors file = open(R"({"q":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]},)"
                          R"("c":{"dtype":"C64","shape":[1],"data_offsets":[4,12]},)"
                          R"("p":{"dtype":"F4","shape":[2,3],"data_offsets":[12,15]},)"
                          R"("w":{"dtype":"F32","shape":[1],"data_offsets":[15,19]}})",
                          std::string(15, '\x7f') + bytes_of(2.5f));
  EXPECT_EQ((file.read<float, 1>("w")(0)), 2.5f);
  expect_contains(error_of([&] { file.read<float, 1>("q"); }),
                  "tensor \"q\" is of dtype F8_E4M3, which cannot be read as F32");
  expect_contains(error_of([&] { file.read<float, 1>("c"); }), "tensor \"c\" is of dtype C64");
  expect_contains(error_of([&] { file.read<double, 2>("p"); }), "tensor \"p\" is of dtype F4");
}

TEST_F(SafetensorsTest, WrongQuestions) {
  Safetensors file = open(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                          R"("n":{"dtype":"I64","shape":[2],"data_offsets":[8,24]},)"
                          R"("b":{"dtype":"BOOL","shape":[2],"data_offsets":[24,26]}})",
                          std::string(8, '\0') + bytes_of(std::int64_t{-1}) + bytes_of(std::int64_t{1} << 31) + "\1\2");
  expect_contains(error_of([&] { file.read<float, 1>("v"); }), path.string() + ": there is no tensor \"v\"");
  expect_contains(error_of([&] { file.read<float, 2>("w"); }), "tensor \"w\" is of shape (2), which has not 2 axes");
  Tensor<float, 1> three(Shape{3});
  expect_contains(error_of([&] { file.read("w", three.view()); }), "tensor \"w\" is of shape (2), not (3)");
  expect_contains(error_of([&] { file.read<std::int64_t, 1>("w"); }),
                  "tensor \"w\" is of dtype F32, which cannot be read as I64");
  expect_contains(error_of([&] { file.read<float, 1>("n"); }),
                  "tensor \"n\" is of dtype I64, which cannot be read as F32");
  expect_contains(error_of([&] { file.read<bool, 1>("n"); }),
                  "tensor \"n\" is of dtype I64, which cannot be read as BOOL");
  expect_contains(error_of([&] { file.read<std::int64_t, 1>("b"); }),
                  "tensor \"b\" is of dtype BOOL, which cannot be read as I64");
  expect_contains(error_of([&] { file.read<std::int32_t, 1>("n"); }), "element 1 of tensor \"n\" does not fit I32");
  expect_contains(error_of([&] { file.read<std::uint64_t, 1>("n"); }), "element 0 of tensor \"n\" does not fit U64");
  expect_contains(error_of([&] { file.read<bool, 1>("b"); }), "element 1 of tensor \"b\" does not fit BOOL");
  EXPECT_EQ((file.read<std::int64_t, 1>("n")(1)), std::int64_t{1} << 31);  // and it goes on after errors
}

TEST_F(SafetensorsTest, ReadsTheGoldenFiles) {
  int count = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(EIGENFORMER_TEST_DATA) / "golden")) {
    if (entry.path().extension() != ".safetensors") continue;
    Safetensors file(entry.path());
    EXPECT_FALSE(file.metadata().empty()) << entry.path();
    EXPECT_FALSE(file.tensors().empty()) << entry.path();
    read_all(file);
    ++count;
  }
  EXPECT_GT(count, 0);
}

// ---- refusing --------------------------------------------------------------------------------------------------

TEST_F(SafetensorsTest, LengthsAreNotTrusted) {
  const std::string good =
      safetensors_bytes(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", std::string(8, '\0'));
  ASSERT_EQ(open(good).tensors().size(), 1u);
  expect_contains(refusal(std::string(8, '\xff') + good.substr(8)),
                  "18446744073709551615 bytes long, more than the format's limit of 100000000");
  expect_contains(refusal(bytes_of(std::uint64_t{100'000'001}) + good.substr(8)), "100000001 bytes long, more than");
  expect_contains(refusal(bytes_of(std::uint64_t{100'000'000}) + good.substr(8)),
                  "100000000 bytes long, but only 62 follow");
  expect_contains(refusal(bytes_of(std::uint64_t{64}) + good.substr(8)), "64 bytes long, but only 62 follow");
  expect_contains(refusal(bytes_of(std::uint64_t{0}) + good.substr(8)), "does not begin with '{'");
  expect_contains(refusal(good.substr(0, 5)), "5 bytes, too few");
  expect_contains(refusal(""), "0 bytes, too few");
  expect_contains(refusal(good.substr(0, good.size() - 1)), "tensor \"w\" ends at 8, but there are 7 bytes of data");
  expect_contains(refusal(good + '\0'), "the tensors end at 8, but there are 9 bytes of data");
  expect_contains(error_of([&] { Safetensors(folder / "none"); }), "there is no such file");
  expect_contains(error_of([&] { Safetensors(folder / ""); }), "there is no such file");  // a folder

  write_file(path, bytes_of(std::uint64_t{100'000'001}) + "{}");
  std::filesystem::resize_file(path, 200'000'000);  // long enough for its header, but that is over the limit
  expect_contains(error_of([&] { Safetensors file(path); }), "more than the format's limit");
}

TEST_F(SafetensorsTest, PaddingIsSpaces) {
  const std::string header = R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", data(4, '\0');
  EXPECT_EQ(open(header + "   ", data).tensors().size(), 1u);
  expect_contains(refusal(header + std::string(3, '\0'), data), "NUL");
  expect_contains(refusal(header + "  x", data), "not valid JSON");
  expect_contains(refusal(header + header, data), "not valid JSON");
  expect_contains(refusal(" " + header, data), "does not begin with '{'");
  expect_contains(refusal("\xef\xbb\xbf" + header, data), "does not begin with '{'");  // a byte order mark
}

TEST_F(SafetensorsTest, MalformedHeaders) {
  const auto tensor = [](const std::string& fields) { return "{\"w\":{" + fields + "}}"; };
  const std::string dtype = R"("dtype":"F32")", shape = R"("shape":[2])", offsets = R"("data_offsets":[0,8])";
  const std::string all = dtype + "," + shape + "," + offsets;
  const std::pair<std::string, std::string> cases[] = {
      {"{", "not valid JSON"},
      {"{\"w\":", "not valid JSON"},
      {"{'w':{}}", "not valid JSON"},
      {"{\"w\xff\":{" + all + "}}", "not valid JSON"},      // no UTF-8
      {"{\"w\xc0\x80\":{" + all + "}}", "not valid JSON"},  // overlong
      {"{\"w\\ud800\":{" + all + "}}", "not valid JSON"},   // half a surrogate pair
      {"{\"w\n\":{" + all + "}}", "not valid JSON"},
      {"{/**/\"w\":{" + all + "}}", "not valid JSON"},
      {tensor(all + ","), "not valid JSON"},
      {"{\"w\":{" + all + "},\"w\":{" + all + "}}", "tensor \"w\" occurs twice"},
      {"{\"w\":{" + all + "},\"\\u0077\":{" + all + "}}", "tensor \"w\" occurs twice"},
      {tensor(all + "," + shape), "tensor \"w\" has two fields \"shape\""},
      {tensor(all + R"(,"strides":[1])"), "tensor \"w\" has an unknown field \"strides\""},
      {tensor(""), "tensor \"w\" has no dtype"},
      {tensor(dtype + "," + offsets), "tensor \"w\" has no shape"},
      {tensor(dtype + "," + shape), "tensor \"w\" has no data_offsets"},
      {tensor(R"("dtype":"F31",)" + shape + "," + offsets), "tensor \"w\" is of the unknown dtype \"F31\""},
      {tensor(R"("dtype":"f32",)" + shape + "," + offsets), "unknown dtype \"f32\""},
      {tensor(R"("dtype":7,)" + shape + "," + offsets), "a number where none may be"},
      {tensor(R"("dtype":null,)" + shape + "," + offsets), "null where none may be"},
      {tensor(dtype + R"(,"shape":2,)" + offsets), "a number where none may be"},
      {tensor(dtype + R"(,"shape":[[2]],)" + offsets), "an array where none may be"},
      {tensor(dtype + R"(,"shape":[{}],)" + offsets), "an object where none may be"},
      {tensor(dtype + R"(,"shape":["2"],)" + offsets), "a string where none may be"},
      {tensor(dtype + R"(,"shape":[true],)" + offsets), "a boolean where none may be"},
      {tensor(dtype + R"(,"shape":[-2],)" + offsets), "a negative number where none may be"},
      {tensor(dtype + R"(,"shape":[2.0],)" + offsets), "not a 64-bit integer"},
      {tensor(dtype + R"(,"shape":[2e0],)" + offsets), "not a 64-bit integer"},
      {tensor(dtype + R"(,"shape":[18446744073709551616],)" + offsets), "not a 64-bit integer"},
      {tensor(dtype + R"(,"shape":[9223372036854775808],)" + offsets),
       "tensor \"w\" has an extent of 9223372036854775808"},
      {tensor(dtype + R"(,"shape":[9223372036854775807,9223372036854775807],)" + offsets), "too large"},
      {tensor(dtype + R"(,"shape":[4294967296,4294967296],"data_offsets":[0,0])"), "too large"},  // 2⁶⁴ wraps to 0
      {tensor(dtype + R"(,"shape":[0,4294967296,4294967296],"data_offsets":[0,0])"), "too large"},
      {tensor(dtype + R"(,"shape":[3],)" + offsets), "tensor \"w\" of shape (3) and dtype F32 needs 12 bytes, not 8"},
      {tensor(R"("dtype":"F4","shape":[3],)" + offsets), "does not fill whole bytes"},
      {tensor(dtype + "," + shape + R"(,"data_offsets":[0])"), "has 1 data_offsets, not 2"},
      {tensor(dtype + "," + shape + R"(,"data_offsets":[0,8,8])"), "has 3 data_offsets, not 2"},
      {tensor(dtype + "," + shape + R"(,"data_offsets":[8,0])"), "begins at 8 and ends at 0"},
      {tensor(dtype + "," + shape + R"(,"data_offsets":[0,16])"), "ends at 16, but there are 8 bytes of data"},
      {tensor(dtype + "," + shape + R"(,"data_offsets":[18446744073709551608,0])"),
       "begins at 18446744073709551608 and ends at 0"},
      {tensor(dtype + R"(,"shape":[1],"data_offsets":[4,8])"), "begins at 4, but the one before ends at 0"},
      {tensor(dtype + R"(,"shape":[1],"data_offsets":[0,4])"), "the tensors end at 4, but there are 8 bytes of data"},
      {R"({"v":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"w":{"dtype":"U8","shape":[3],"data_offsets":[5,8]}})",
       "tensor \"w\" begins at 5, but the one before ends at 4"},
      {R"({"v":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"w":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
       "tensor \"w\" begins at 4, but the one before ends at 8"},
      {R"({"w":["F32",[2],[0,8]]})", "an array where none may be"},
      {R"({"w":"F32"})", "a string where none may be"},
      {R"({"w":null})", "null where none may be"},
      {R"({"__metadata__":{"a":1}})", "a number where none may be"},
      {R"({"__metadata__":{"a":{}}})", "an object where none may be"},
      {R"({"__metadata__":{"a":null}})", "null where none may be"},
      {R"({"__metadata__":"a"})", "a string where none may be"},
      {R"({"__metadata__":{"a":"b","a":"b"}})", "the key \"a\" of __metadata__ occurs twice"},
      {R"({"__metadata__":{},"__metadata__":{}})", "__metadata__ occurs twice"},
      {"{\"w\":" + std::string(100'000, '['), "an array where none may be"},
      {"{\"w\":" + std::string(100'000, '{'), "not valid JSON"},
  };
  const std::string kilobytes(5000, 'x');
  EXPECT_LT(refusal("{\"" + kilobytes + "\":{\"" + kilobytes + "\":1}}", "").size(), 1000u);
  for (const auto& [header, reason] : cases) {
    SCOPED_TRACE(header.substr(0, 200));
    expect_contains(refusal(header, std::string(8, '\0')), reason);
  }
}

TEST_F(SafetensorsTest, TruncatedAnywhere) {
  SafetensorsWriter writer;
  writer.metadata["unit"] = "m";
  const auto w = counting<float>(Shape{4, 5}, 0.f, 1.f);
  const auto n = counting<std::int64_t>(Shape{3}, 0, 1);
  writer.add("w", w.view());
  writer.add("n", n.view());
  writer.write(path);
  const std::string whole = read_file(path);
  const std::size_t data = whole.size() - 4 * 5 * 4 - 3 * 8;
  for (std::size_t size = 0; size < data; ++size) refusal(whole.substr(0, size));
  RandomSequence random(1);
  for (int i = 0; i < 50; ++i)
    refusal(whole.substr(0, data + static_cast<std::size_t>(random.below(static_cast<Index>(whole.size() - data)))));
}

TEST_F(SafetensorsTest, AFileCutOffWhileOpen) {
  Safetensors file =
      open(R"({"w":{"dtype":"F32","shape":[100000],"data_offsets":[0,400000]}})", std::string(400'000, '\0'));
  std::filesystem::resize_file(path, 1000);
  expect_contains(error_of([&] { file.read<float, 1>("w"); }), "cut off");
  expect_contains(error_of([&] { file.read<double, 1>("w"); }), "cut off");
}

// Any other byte anywhere in the length or the header: an Error or a valid file, never a crash or a huge allocation.
TEST_F(SafetensorsTest, EveryChangeOfOneHeaderByte) {
  std::string bytes =
      safetensors_bytes(R"({"__metadata__":{"a":"b"},"w":{"dtype":"F16","shape":[2,3],"data_offsets":[0,12]},)"
                        R"("n":{"dtype":"I8","shape":[0],"data_offsets":[12,12]}} )",
                        "\1\2\3\4\5\6\7\10\11\12\13\14");
  int valid = 0;
  for (std::size_t at = 0; at < bytes.size() - 12; ++at) {
    const char original = bytes[at];
    for (int change = 1; change < 256; ++change) {
      bytes[at] = static_cast<char>(original ^ change);
      try {
        Safetensors file(std::make_unique<std::istringstream>(bytes), "memory");
        read_all(file);
        ++valid;
      } catch (const Error&) {
      }
    }
    bytes[at] = original;
  }
  EXPECT_GT(valid, 100);  // other names and texts, U8, …
}

// ---- writing ---------------------------------------------------------------------------------------------------

TEST_F(SafetensorsTest, WritesTheseBytes) {
  SafetensorsWriter writer;
  writer.metadata = {{"b", "\"2\""}, {"a", "1"}};
  const auto w = counting<float>(Shape{1, 2}, 1.f, 1.f);
  const auto n = counting<std::int64_t>(Shape{1}, 258, 0);
  const auto u = counting<std::uint8_t>(Shape{3}, 1, 1);
  writer.add("w", w.view());
  writer.add("u", u.view());
  writer.add("n", n.view());
  writer.write(path);
  std::string header =
      R"({"__metadata__":{"a":"1","b":"\"2\""},"n":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},)"
      R"("w":{"dtype":"F32","shape":[1,2],"data_offsets":[8,16]},"u":{"dtype":"U8","shape":[3],"data_offsets":[16,19]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  EXPECT_EQ(read_file(path), safetensors_bytes(header, std::string("\2\1\0\0\0\0\0\0\0\0\200\77\0\0\0\100\1\2\3", 19)));

  SafetensorsWriter().write(path);
  EXPECT_EQ(read_file(path), safetensors_bytes("{}      ", ""));
}

TEST_F(SafetensorsTest, RoundTrips) {
  auto f = counting<float>(Shape{3, 5}, -2.f, 0.3f);
  f(0, 0) = with_bits<float>(0x7fc12345);  // NaNs with payload, quiet and signalling
  f(0, 1) = with_bits<float>(0xff812345);
  f(0, 2) = -0.0f, f(0, 3) = 1e-45f, f(0, 4) = -std::numeric_limits<float>::infinity();
  auto d = counting<double>(Shape{2, 3, 4, 5}, 1.0, 1e-3);
  d(0, 0, 0, 0) = with_bits<double>(0x7ff4123456789abc);
  d(0, 0, 0, 1) = 5e-324;
  using Long = std::numeric_limits<std::int64_t>;
  const auto i = counting<std::int64_t>(Shape{2}, (Long::min)(), (Long::max)());
  const auto s = counting<std::int32_t>(Shape{2, 2}, -5, 3);
  const auto u = counting<std::uint64_t>(Shape{2}, ~std::uint64_t{0}, 2);
  const auto c = counting<std::uint8_t>(Shape{7}, 250, 1);
  const auto h = counting<std::int16_t>(Shape{2}, -7, 1);
  Tensor<bool, 2> b(Shape{2, 2});
  b(0, 1) = b(1, 0) = true;
  const Tensor<float, 3> empty(Shape{4, 0, 2});

  SafetensorsWriter writer;
  writer.metadata = {{"한국어", "값\n\t\"\\"}, {"", ""}};
  writer.add("f", f.view());
  writer.add("d", d.view());
  writer.add("i", i.view());
  writer.add("s", s.view());
  writer.add("u", u.view());
  writer.add("c", c.view());
  writer.add("h", h.view());
  writer.add("b \"½\"\n", b.view());
  writer.add("", empty.view());
  writer.add("part", f.view().slice(1, 1, 2));
  writer.write(path);

  Safetensors file(path);
  EXPECT_EQ(file.metadata(), writer.metadata);
  expect_same_bits(file.read<float, 2>("f"), f);
  expect_same_bits(file.read<double, 4>("d"), d);
  expect_same_bits(file.read<std::int64_t, 1>("i"), i);
  expect_same_bits(file.read<std::int32_t, 2>("s"), s);
  expect_same_bits(file.read<std::uint64_t, 1>("u"), u);
  expect_same_bits(file.read<std::uint8_t, 1>("c"), c);
  expect_same_bits(file.read<std::int16_t, 1>("h"), h);
  expect_same_bits(file.read<bool, 2>("b \"½\"\n"), b);
  EXPECT_EQ((file.read<float, 3>("").shape()), empty.shape());
  expect_same_bits(file.read<float, 2>("part"), Tensor<float, 2>(ConstView<float, 2>(f.view().slice(1, 1, 2))));

  const std::string bytes = read_file(path);
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  EXPECT_EQ(length % 8, 0u);
  for (const auto& [name, stored] : file.tensors())
    EXPECT_EQ(stored.begin % (detail::find_dtype(stored.dtype)->bits / 8), 0u) << name;
  writer.write(path);
  EXPECT_EQ(read_file(path), bytes);
  EXPECT_EQ(folder.count(), 1);
}

TEST_F(SafetensorsTest, WritesRowsOf16BitsAsTheyAreMade) {
  SafetensorsWriter writer;
  writer.add_rows<BrainFloat>("brain", Shape{Index{3}, Index{4}}, [](Index i, BrainFloat* row) {
    for (Index j = 0; j < 4; ++j) row[j] = to_brain_float(static_cast<float>(10 * i + j));
  });
  writer.add_rows<Half>("half", Shape{Index{1}, Index{2}}, [](Index, Half* row) { row[0] = row[1] = to_half(1.5F); });
  writer.write(path);
  Safetensors file(path);
  EXPECT_EQ(file.find("brain")->dtype, "BF16");
  EXPECT_EQ(file.find("half")->dtype, "F16");
  const auto brain = file.read<float, 2>("brain");
  for (Index i = 0; i < 3; ++i)
    for (Index j = 0; j < 4; ++j) EXPECT_EQ(brain(i, j), static_cast<float>(10 * i + j));
  EXPECT_EQ((file.read<float, 2>("half")(0, 1)), 1.5F);
}

TEST_F(SafetensorsTest, RefusesToWriteWhatCannotBeRead) {
  SafetensorsWriter writer;
  const Tensor<float, 1> x(Shape{1});
  writer.add("x", x.view());
  expect_contains(error_of([&] { writer.add("x", x.view()); }), "tensor \"x\": the name is taken");
  expect_contains(error_of([&] { writer.add("__metadata__", x.view()); }), "the name is taken");
  writer.add("\xff", x.view());
  expect_contains(error_of([&] { writer.write(path); }),
                  path.string() + ": a name or a text of the metadata is not UTF-8");
  EXPECT_EQ(folder.count(), 0);
}

TEST_F(SafetensorsTest, FailingToWriteLeavesEverythingAsItWas) {
  SafetensorsWriter writer;
  const auto x = counting<float>(Shape{1000}, 0.f, 1.f);
  writer.add("x", x.view());
  write_file(path, "precious");

  expect_contains(error_of([&] { writer.write(folder / "none/x"); }), "cannot create a file there");
  expect_contains(error_of([&] { writer.write(path / "x"); }), "cannot create a file there");  // a file is no folder
  std::filesystem::create_directory(folder / "taken");
  write_file(folder / "taken/x", "");
  expect_contains(error_of([&] { writer.write(folder / "taken"); }), "cannot be replaced");
  EXPECT_EQ(folder.count(), 2);

#if __has_include(<sys/resource.h>)
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 1000;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string message = error_of([&] { writer.write(path); });
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  expect_contains(message, path.string() + ": cannot be written: File too large");
  EXPECT_EQ(folder.count(), 2);
#endif

  std::filesystem::permissions(folder / "", std::filesystem::perms::owner_write, std::filesystem::perm_options::remove);
  try {
    writer.write(folder / "y");
    std::filesystem::remove(folder / "y");  // the superuser may
  } catch (const Error& error) {
    expect_contains(error.what(), "cannot create a file there");
  }
  std::filesystem::permissions(folder / "", std::filesystem::perms::owner_write, std::filesystem::perm_options::add);
  EXPECT_EQ(folder.count(), 2);
  EXPECT_EQ(read_file(path), "precious");
  writer.write(path);
  EXPECT_EQ(Safetensors(path).tensors().size(), 1u);
}

}  // namespace
}  // namespace eigenformer::test
