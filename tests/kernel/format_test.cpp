// Numbers of 16, 8 and 4 bits: how they are rounded, and products with them, against their definition in plain loops.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "eigenformer/core/arena.hpp"
#include "eigenformer/core/half.hpp"
#include "eigenformer/kernel/gemm.hpp"
#include "eigenformer/kernel/word_product.hpp"
#include "support/guarded.hpp"
#include "support/tensors.hpp"
#include "support/tolerance.hpp"

namespace eigenformer::test {
namespace {

constexpr float infinite = std::numeric_limits<float>::infinity(),
                not_a_number = std::numeric_limits<float>::quiet_NaN();

// IEEE 754-2019, 3.6 and 4.3.1: 11 bits, exponents −14 … 15; ties go to the even number.
TEST(Half, Rounding) {
  const auto bits = [](float x) { return to_half(x).bits; };
  EXPECT_EQ(bits(1), 0x3c00);
  EXPECT_EQ(bits(-2), 0xc000);
  EXPECT_EQ(bits(65504), 0x7bff);
  EXPECT_EQ(bits(std::nextafter(65520.0f, 0.0f)), 0x7bff);
  EXPECT_EQ(bits(65520), 0x7c00);
  EXPECT_EQ(bits(-infinite), 0xfc00);
  EXPECT_EQ(bits(0x1p-14f), 0x0400);
  EXPECT_EQ(bits(0x1p-24f), 0x0001);
  EXPECT_EQ(bits(0x1p-25f), 0x0000);
  EXPECT_EQ(bits(0x1.8p-24f), 0x0002);
  EXPECT_EQ(bits(-0.0f), 0x8000);
  EXPECT_EQ(bits(1 + 0x1p-11f), 0x3c00);
  EXPECT_EQ(bits(1 + 0x3p-11f), 0x3c02);
  EXPECT_TRUE(std::isnan(widen(to_half(not_a_number))));
  for (std::uint32_t i = 0; i < 0x10000; ++i) {
    const Half half{static_cast<std::uint16_t>(i)};
    if (!std::isnan(widen(half))) {
      ASSERT_EQ(to_half(widen(half)).bits, half.bits);
    }
  }
}
TEST(BrainFloat, Rounding) {
  const auto bits = [](float x) { return to_brain_float(x).bits; };
  EXPECT_EQ(bits(1), 0x3f80);
  EXPECT_EQ(bits(1 + 0x1p-8f), 0x3f80);
  EXPECT_EQ(bits(1 + 0x3p-8f), 0x3f82);
  EXPECT_EQ(bits(std::nextafter(1 + 0x1p-8f, 2.0f)), 0x3f81);
  EXPECT_EQ(bits((std::numeric_limits<float>::max)()), 0x7f80);
  EXPECT_EQ(bits(-infinite), 0xff80);
  EXPECT_TRUE(std::isnan(widen(to_brain_float(std::bit_cast<float>(0x7f800001u)))));
}

struct Kind {
  Format format;
  Index group;
};
constexpr Kind kinds[] = {{Format::f16, 0},   {Format::bf16, 0},  {Format::int8, 0},  {Format::int8, 32},
                          {Format::int8, 64}, {Format::int4, 32}, {Format::int4, 128}};
std::string name(const Kind& kind) {
  return std::string(format_name(kind.format)) + " in groups of " + std::to_string(kind.group);
}

/// A weight (N, K) in a format.
struct Packed {
  kernel::PackedWords words;
  std::vector<std::byte> memory;

  Packed(ConstView<float, 2> w, const Kind& kind, const float* importance = nullptr, const Threads& threads = {})
      : words{.format = kind.format, .depth = w.extent(1), .width = w.extent(0), .group = kind.group} {
    if (words.is_whole())
      words.unit = kernel::scale_unit(static_cast<float>(magnitude(Tensor<float, 2>(w))), kind.format);
    memory.resize(words.bytes());
    kernel::quantize(threads, w, words, importance, memory.data());
    words = words.at(memory.data());
  }
  std::vector<float> column(Index n) const {
    std::vector<float> x(static_cast<std::size_t>(words.depth));
    words.column(n, x.data());
    return x;
  }
};

/// What a machine makes of a·b + c: one rounding if it can.
float multiply_add(float a, float b, float c) {
  float lanes[static_cast<std::size_t>(kernel::Vec<float>::lanes)];
  kernel::fma(kernel::Vec<float>(a), kernel::Vec<float>(b), kernel::Vec<float>(c)).store(lanes);
  return lanes[0];
}

/// x·column n, as the format defines it.
float plain_product(const float* x, const Packed& b, Index n) {
  const kernel::PackedWords& w = b.words;
  const Index depth = w.depth;
  float total = 0;
  const auto rounded = [&](Index k) { return k < depth ? widen(to_brain_float(x[k])) : 0.0f; };
  const auto number = [&](Index k) { return k < depth ? w.number(n, k) : 0.0f; };
  switch (w.format) {
    case Format::f16:
    case Format::bf16:
      for (Index first = 0; first < depth; first += 1024) {
        float sum = 0;
        for (Index k = first; k < (std::min)(first + 1024, depth); k += 2)
          if (w.format == Format::f16)
            sum = multiply_add(k + 1 < depth ? x[k + 1] : 0, number(k + 1), multiply_add(x[k], number(k), sum));
          else sum = multiply_add(rounded(k), number(k), multiply_add(rounded(k + 1), number(k + 1), sum));
        total += sum;
      }
      return total;
    default: {
      const Index shared = w.group == 0 ? depth : w.group, piece = w.group == 0 ? 2048 : w.group;
      for (Index group = 0; group < depth; group += shared) {
        float largest = 0;
        for (Index k = group; k < (std::min)(group + shared, depth); ++k) largest = (std::max)(largest, std::abs(x[k]));
        const float scale = largest / 127;
        for (Index first = group; first < (std::min)(group + shared, depth); first += piece) {
          std::int64_t sum = 0;
          for (Index k = first; k < (std::min)({first + piece, group + shared, depth}); ++k)
            sum += std::lrint(largest == 0 ? 0 : x[k] * (1 / scale)) * std::lrint(number(k));
          total = multiply_add(static_cast<float>(sum), w.scale(n, group / shared) * (scale * w.unit / w.unit), total);
        }
      }
      return total;
    }
  }
}

}  // namespace

TEST(Formats, NumbersAreTheNearest) {
  const auto w = random_tensor<float>(Shape{70, 131}, 1);
  for (const Kind& kind : kinds) {
    SCOPED_TRACE(name(kind));
    const Packed packed(w, kind);
    for (const Index n : {0, 63, 64, 69}) {
      const std::vector<float> column = packed.column(n);
      for (Index k = 0; k < 131; ++k) {
        const float x = w(n, k), got = column[static_cast<std::size_t>(k)];
        if (kind.format == Format::f16) {
          ASSERT_EQ(got, widen(to_half(x)));
        } else if (kind.format == Format::bf16) {
          ASSERT_EQ(got, widen(to_brain_float(x)));
        } else if (kind.format == Format::int8) {  // a scale has 11 bits
          ASSERT_LE(std::abs(got - x), packed.words.scale(n, kind.group == 0 ? 0 : k / kind.group) * 0.57f);
        }
      }
      if (kind.format == Format::int8 && kind.group == 0) {
        float largest = 0;
        for (Index k = 0; k < 131; ++k) largest = (std::max)(largest, std::abs(w(n, k)));
        EXPECT_NEAR(packed.words.scale(n, 0), largest / 127, largest / 127 * 0x1p-11);
      }
    }
  }
}

// Whole numbers times a half, the largest of them at the end of the range, as files of blocks hold them, stay as they
// are.
TEST(Formats, WholeNumbersStay) {
  for (const Kind& kind : {Kind{Format::int8, 32}, Kind{Format::int4, 32}}) {
    SCOPED_TRACE(name(kind));
    const int most = kind.format == Format::int8 ? 127 : 7, end = kind.format == Format::int8 ? 127 : -8;
    RandomSequence random(1);
    Tensor<float, 2> w(Shape{70, 96});
    for (Index n = 0; n < 70; ++n)
      for (Index group = 0; group < 3; ++group) {
        const float scale = widen(to_half(static_cast<float>(random.normal()) * 0.01f));
        for (Index k = 0; k < 32; ++k)
          w(n, 32 * group + k) =
              scale * static_cast<float>(k == 5 ? end : static_cast<int>(random.below(2 * most + 1)) - most);
      }
    const Packed packed(w, kind);
    for (Index n = 0; n < 70; ++n) {
      const std::vector<float> column = packed.column(n);
      for (Index k = 0; k < 96; ++k) ASSERT_EQ(column[static_cast<std::size_t>(k)], w(n, k)) << n << ", " << k;
    }
  }
}

// The error of a group, over all scales of a fine grid and the nearest numbers for each, can hardly be less.
TEST(Formats, Int4SearchesForTheLeastError) {
  const auto w = random_tensor<float>(Shape{64, 32}, 2);
  std::vector<float> importance(32);
  for (std::size_t k = 0; k < 32; ++k) importance[k] = k % 4 == 0 ? 10.0f : 1.0f;
  for (const bool weighted : {false, true}) {
    const Packed packed(w, {Format::int4, 32}, weighted ? importance.data() : nullptr);
    double found = 0, best = 0, plain = 0;
    for (Index n = 0; n < 64; ++n) {
      const auto error = [&](auto&& value) {
        double sum = 0;
        for (Index k = 0; k < 32; ++k) {
          const double d = w(n, k) - value(k);
          sum += (weighted ? importance[static_cast<std::size_t>(k)] : 1.0f) * d * d;
        }
        return sum;
      };
      const auto by_scale = [&](double scale) {
        return error([&](Index k) { return scale * std::clamp(std::nearbyint(w(n, k) / scale), -8.0, 7.0); });
      };
      const std::vector<float> column = packed.column(n);
      found += error([&](Index k) { return column[static_cast<std::size_t>(k)]; });
      double largest = 0, least = 1e9;
      for (Index k = 0; k < 32; ++k) largest = (std::max)(largest, std::abs(static_cast<double>(w(n, k))));
      for (double steps = 5; steps < 10; steps += 0.01)
        least = (std::min)({least, by_scale(largest / steps), by_scale(-largest / steps)});
      best += least;
      plain += by_scale(largest / 7);
    }
    EXPECT_LE(found, best * 1.03);
    EXPECT_LE(found, plain * 0.85);
  }
}

TEST(Formats, ProductsAreThoseOfTheDefinition) {
  Arena arena;
  constexpr Index depths[] = {1, 2, 7, 32, 33, 130, 2048, 2500};
  for (const Kind& kind : kinds) {
    SCOPED_TRACE(name(kind));
    for (const Index depth : depths)
      for (const Index width : {1, 17, 64, 130}) {
        if (depth > 200 && width > 17) continue;
        arena.reset();
        const Guarded<float, 2> w(Shape{width, depth}, {}, 1), x(Shape{15, depth}, {}, 2), y(Shape{15, width}, {});
        const Packed packed(w, kind);
        kernel::multiply_words({}, arena, ConstView<float, 2>(x), packed.words, y.view(), false);
        for (Index i = 0; i < 15; ++i)
          for (Index n = 0; n < width; ++n)
            ASSERT_EQ(y(i, n), plain_product(x.view().row(i), packed, n))
                << depth << " x " << width << ", " << i << ", " << n;
      }
  }
}

TEST(Formats, SameBitsForAnyRowsAndThreads) {
  Arena arena;
  const auto w = random_tensor<float>(Shape{150, 200}, 1), x = random_tensor<float>(Shape{131, 200}, 2);
  for (const Kind& kind : kinds) {
    SCOPED_TRACE(name(kind));
    const Threads three(3);
    const Packed packed(w, kind), by_threads(w, kind, nullptr, three);
    EXPECT_EQ(packed.memory, by_threads.memory);
    Tensor<float, 2> y(Shape{131, 150}), other(Shape{131, 150});
    kernel::multiply_words({}, arena, x.view(), packed.words, y.view(), false);
    kernel::multiply_words(three, arena, x.view(), packed.words, other.view(), false);
    EXPECT_TRUE(identical(y, other));
    for (Index first = 0, count = 1; first < 131; first += count, count = (std::min)(count + 3, 131 - first))
      kernel::multiply_words({}, arena, x.view().slice(0, first, count), packed.words,
                             other.view().slice(0, first, count), false);
    EXPECT_TRUE(identical(y, other));
  }
}

TEST(Formats, SumsAndEpilogues) {
  Arena arena;
  const auto w = random_tensor<float>(Shape{70, 40}, 1), x = random_tensor<float>(Shape{20, 40}, 2);
  for (const Kind& kind : kinds) {
    SCOPED_TRACE(name(kind));
    const Packed packed(w, kind);
    Tensor<float, 2> y(Shape{20, 70}), sum(Shape{20, 70});
    kernel::multiply_words({}, arena, x.view(), packed.words, y.view(), false);
    std::fill_n(sum.data(), sum.size(), 64.0f);
    const auto twice = [](Index, Index, float* out, Index count) {
      for (Index i = 0; i < count; ++i) out[i] *= 2;
    };
    kernel::multiply_words({}, arena, x.view(), packed.words, sum.view(), true, twice);
    for (Index i = 0; i < y.size(); ++i) ASSERT_NEAR(sum.data()[i], 2 * (64 + y.data()[i]), 3e-4);
  }
}

// A row with NaN or ∞ is NaN, and no other; 0 and numbers near the ends of float lose nothing that the format keeps.
TEST(Formats, StrangeRows) {
  Arena arena;
  const auto w = random_tensor<float>(Shape{10, 64}, 1);
  for (const Kind& kind : kinds) {
    SCOPED_TRACE(name(kind));
    const Packed packed(w, kind);
    auto x = random_tensor<float>(Shape{5, 64}, 2);
    x(1, 40) = not_a_number;
    x(2, 3) = infinite;
    std::fill_n(x.view().row(3), 64, 0.0f);
    for (Index k = 0; k < 64; ++k) x(4, k) = x(0, k) * 0x1p-100f;
    Tensor<float, 2> y(Shape{5, 10});
    kernel::multiply_words({}, arena, x.view(), packed.words, y.view(), false);
    for (Index n = 0; n < 10; ++n) {
      EXPECT_TRUE(std::isfinite(y(0, n)));
      EXPECT_TRUE(std::isnan(y(1, n)));
      EXPECT_FALSE(std::isfinite(y(2, n)));
      EXPECT_EQ(y(3, n), 0);
      EXPECT_EQ(y(4, n), y(0, n) * 0x1p-100f);
    }
  }
  // Weights of any size: the scales are halves times a power of two of the weight.
  for (const float size : {0x1p-100f, 0x1p-17f, 0x1p100f}) {
    auto scaled = w;
    for (Index i = 0; i < w.size(); ++i) scaled.data()[i] *= size;
    for (const Kind& kind : kinds) {
      if (kind.format == Format::f16) continue;
      const std::vector<float> got = Packed(scaled, kind).column(3), want = Packed(w, kind).column(3);
      for (std::size_t k = 0; k < 64; ++k) ASSERT_EQ(got[k], want[k] * size);
    }
  }
}

// Two inputs a hundred times as large as the others: of a group the outlier decides the scale, √31/(127·√12) of its
// own product is lost at the most, all others keep theirs; without groups it is √511/(127·√12).
TEST(Formats, GroupsBearOutliers) {
  Arena arena;
  const auto w = random_tensor<float>(Shape{64, 512}, 1);
  auto x = random_tensor<float>(Shape{4, 512}, 2);
  for (Index i = 0; i < 4; ++i) x(i, 100) = 100, x(i, 301) = -100;
  const auto error = [&](Index group) {
    const Packed packed(w, {Format::int8, group});
    Tensor<float, 2> y(Shape{4, 64});
    kernel::multiply_words({}, arena, x.view(), packed.words, y.view(), false);
    double lost = 0, size = 0;
    for (Index i = 0; i < 4; ++i)
      for (Index n = 0; n < 64; ++n) {
        double want = 0;
        for (Index k = 0; k < 512; ++k) want += static_cast<double>(x(i, k)) * w(n, k);
        lost += (y(i, n) - want) * (y(i, n) - want);
        size += want * want;
      }
    return std::sqrt(lost / size);
  };
  EXPECT_LE(error(32), 0.0127 + 0.003);  // and the weights' own rounding
  EXPECT_GE(error(0), 0.03);
}

// By the numbers of the packed copy, as if they were the weight.
TEST(Formats, DerivativeByTheInput) {
  Arena arena;
  const auto w = random_tensor<float>(Shape{600, 70}, 1), dy = random_tensor<float>(Shape{9, 600}, 2);
  for (const Kind& kind : kinds) {
    SCOPED_TRACE(name(kind));
    const Packed packed(w, kind);
    Tensor<float, 2> numbers(Shape{600, 70}), got(Shape{9, 70}), want(Shape{9, 70});
    for (Index n = 0; n < 600; ++n) packed.words.column(n, numbers.view().row(n));
    kernel::Operand<float> operand{.depth = 70, .width = 600};
    operand.words = packed.words;
    kernel::linear_backward_input<float>({}, arena, dy.view(), operand, {got.view(), false});
    kernel::linear_backward_input<float>({}, arena, dy.view(), numbers.view(), {want.view(), false});
    EXPECT_TRUE(identical(got, want));
  }
}

}  // namespace eigenformer::test
