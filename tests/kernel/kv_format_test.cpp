// Cached keys and values in bf16 and int8: what is stored, and attention to it, against plain loops in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "eigenformer/kernel/attention.hpp"
#include "support/tensors.hpp"
#include "support/tolerance.hpp"

namespace eigenformer::test {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN(), kv_infinity = std::numeric_limits<float>::infinity();

/// To 8 significant bits, of two the even one: for magnitudes far from the ends of the range.
double to_eight_bits(double x) {
  if (x == 0) return 0;
  const double unit = std::ldexp(1.0, std::ilogb(x) - 7);
  return std::nearbyint(x / unit) * unit;
}

/// Blocks of some heads' tokens, in memory that held NaN.
struct Kept {
  Format format;
  Index heads, width, tokens;
  std::vector<std::vector<float>> memory;
  std::vector<kernel::KvBlock<float>> blocks;

  /// keys and values (1, tokens, K, E), put in pieces of so many tokens.
  Kept(Format in, const Tensor<float, 4>& key, const Tensor<float, 4>& value, float scale, Index piece)
      : format(in), heads(key.extent(2)), width(key.extent(3)), tokens(key.extent(1)) {
    constexpr Index size = kernel::key_block<float>;
    for (Index begin = 0; begin < tokens; begin += size) {
      const Index count = (std::min)(tokens - begin, size);
      kernel::KvBlock<float> block{nullptr, kernel::KvBlock<float>::fitting(count, size), heads, width, format};
      block.data = memory.emplace_back(static_cast<std::size_t>(block.size()), nan).data();
      for (Index first = 0; first < count; first += piece)
        for (Index h = 0; h < heads; ++h) {
          const Index some = (std::min)(piece, count - first);
          block.put(h, first, kernel::detail::head(key.view(), 0, h).slice(0, begin + first, some),
                    kernel::detail::head(value.view(), 0, h).slice(0, begin + first, some), scale);
        }
      blocks.push_back(block);
    }
  }

  double key(Index h, Index token, Index e) const { return number(h, token, e, true); }
  double value(Index h, Index token, Index e) const { return number(h, token, e, false); }

 private:
  double number(Index h, Index token, Index e, bool of_key) const {
    const auto& block = blocks[static_cast<std::size_t>(token / kernel::key_block<float>)];
    const Index at = token % kernel::key_block<float>;
    double x = 0;
    block.with_numbers([&](auto zero) {
      using R = decltype(zero);
      const R stored = of_key ? block.key_column<R>(h, at)[e * block.key_stride()] : block.value_row<R>(h, at)[e];
      if constexpr (std::is_same_v<R, BrainFloat>) {
        const int exponent = stored.bits >> 7 & 0xff, fraction = stored.bits & 0x7f;
        x = exponent == 0 ? std::ldexp(fraction, -133) : std::ldexp(128 + fraction, exponent - 134);
        if (exponent == 255) x = fraction == 0 ? HUGE_VAL : nan;
        if (stored.bits >> 15) x = -x;
      } else {
        x = static_cast<double>(stored);
        if (block.has_scales()) x *= static_cast<double>((of_key ? block.key_scales(h) : block.value_scales(h))[at]);
      }
    });
    return x;
  }
};

/// Sequences of queries against the same keys, each of `counts` ending where the one before ended.
Tensor<float, 4> attention(const Kept& kept, const Tensor<float, 4>& query, bool causal, Index window,
                           const std::vector<Index>& counts, const Threads& threads = {}) {
  Tensor<float, 4> output(query.shape());
  Arena arena;
  Index first = 0;
  for (const Index count : counts) {
    const kernel::CachedAttentionInputs<float>::Sequence sequence[] = {
        {0, count, kept.tokens - query.extent(1) + first + count, kept.blocks.data()}};
    kernel::cached_attention_forward<float>(
        threads, arena, {query.view().slice(1, first, count), {sequence, Shape<1>{1}}, kept.heads, causal, window},
        output.view().slice(1, first, count));
    first += count;
  }
  return output;
}

void expect_softmax_of_kept(const Kept& kept, const Tensor<float, 4>& query, bool causal, Index window,
                            const Tensor<float, 4>& got) {
  const Index queries = query.extent(1), group = query.extent(2) / kept.heads;
  std::vector<double> scores(static_cast<std::size_t>(kept.tokens));
  for (Index i = 0; i < queries; ++i)
    for (Index h = 0; h < query.extent(2); ++h) {
      const Index own = kept.tokens - queries + i;
      double largest = -HUGE_VAL, terms = 0, size = 0, sum = 0;
      const auto sees = [&](Index j) { return (!causal || j <= own) && (window == 0 || (std::abs)(j - own) < window); };
      for (Index j = 0; j < kept.tokens; ++j) {
        if (!sees(j)) continue;
        double s = 0, magnitude = 0;
        for (Index e = 0; e < kept.width; ++e) {
          const double term = query(0, i, h, e) * kept.key(h / group, j, e);
          s += term, magnitude += std::abs(term);
          size = (std::max)(size, std::abs(kept.value(h / group, j, e)));
        }
        scores[static_cast<std::size_t>(j)] = s;
        largest = (std::max)(largest, s), terms = (std::max)(terms, magnitude);
      }
      std::vector<double> mixed(static_cast<std::size_t>(kept.width));
      for (Index j = 0; j < kept.tokens; ++j) {
        if (!sees(j)) continue;
        const double weight = std::exp(scores[static_cast<std::size_t>(j)] - largest);
        sum += weight;
        for (Index e = 0; e < kept.width; ++e)
          mixed[static_cast<std::size_t>(e)] += weight * kept.value(h / group, j, e);
      }
      for (Index e = 0; e < kept.width; ++e)  // an error of a score is one of its weight
        ASSERT_NEAR(got(0, i, h, e), mixed[static_cast<std::size_t>(e)] / sum,
                    Tolerance<float>::attention * std::numeric_limits<float>::epsilon() * size * (1 + terms))
            << "query " << i << ", head " << h << ", " << e;
    }
}

}  // namespace

TEST(KvFormat, StoresTheNearestNumbers) {
  for (const Index width : {1, 5, 16, 70}) {
    auto key = random_tensor<float>(Shape{1, 150, 2, width}, 1),
         value = random_tensor<float>(Shape{1, 150, 2, width}, 2);
    std::fill_n(&key(0, 7, 1, 0), width, 0.0F);
    for (Index j = 100; j < 150; ++j)  // of very different sizes
      for (Index e = 0; e < 2 * width; ++e) (&key(0, j, 0, 0))[e] *= std::ldexp(1.0F, static_cast<int>(4 * (j - 125)));
    for (const Index piece : {1, 7, 150}) {
      const Kept narrow(Format::bf16, key, value, 0.25F, piece), whole(Format::int8, key, value, 0.25F, piece);
      for (Index j = 0; j < 150; ++j)
        for (Index h = 0; h < 2; ++h)
          for (const bool keys : {true, false}) {
            const auto given = [&](Index e) { return double{keys ? key(0, j, h, e) * 0.25F : value(0, j, h, e)}; };
            double largest = 0;
            for (Index e = 0; e < width; ++e) largest = (std::max)(largest, std::abs(given(e)));
            for (Index e = 0; e < width; ++e) {
              ASSERT_EQ(keys ? narrow.key(h, j, e) : narrow.value(h, j, e), to_eight_bits(given(e)));
              const double stored = keys ? whole.key(h, j, e) : whole.value(h, j, e);
              ASSERT_NEAR(stored, given(e), largest * (0.5 / 127 + 1e-6)) << "half a step";
              if (std::abs(given(e)) == largest) {
                ASSERT_NEAR(stored, given(e), largest * 1e-6);
              }
            }
          }
    }
  }
}

// Products read whole vectors: what is beyond the tokens in them must be numbers, also after a copy.
TEST(KvFormat, WholeVectorsAreNumbersWhateverTheMemoryHeld) {
  constexpr Index lanes = kernel::Vec<float>::lanes;
  for (const Format format : {Format::bf16, Format::int8})
    for (const Index tokens : {Index{1}, lanes, kernel::Tile<float>::width + 3}) {
      const auto key = random_tensor<float>(Shape{Index{1}, tokens, Index{2}, Index{5}}, 1),
                 value = random_tensor<float>(key.shape(), 2);
      const Kept kept(format, key, value, 1, 2);
      Kept copied(format, Tensor<float, 4>(key.shape()), Tensor<float, 4>(key.shape()), 1, tokens);
      std::fill(copied.memory[0].begin(), copied.memory[0].end(), nan);
      copied.blocks[0].copy(kept.blocks[0], tokens);
      for (const Kept* each : {&kept, static_cast<const Kept*>(&copied)})
        for (Index h = 0; h < 2; ++h)
          for (Index e = 0; e < 5; ++e)
            for (Index j = 0; j < (tokens + lanes - 1) / lanes * lanes; ++j) {
              EXPECT_EQ(each->key(h, j, e), j < tokens ? kept.key(h, j, e) : 0);
              if (j < tokens) {
                EXPECT_EQ(each->value(h, j, e), kept.value(h, j, e));
              }
            }
    }
}

TEST(KvFormat, AttentionIsThatOfTheStoredNumbers) {
  struct Case {
    Index tokens, queries, kv_heads, group, width;
    bool causal;
    Index window;
  };
  for (const Case& c : {Case{1, 1, 1, 1, 1, true, 0},
                        {20, 20, 2, 3, 16, true, 0},
                        {700, 1, 2, 3, 20, true, 0},
                        {700, 40, 1, 2, 70, true, 0},
                        {1100, 9, 2, 1, 5, true, 300},
                        {600, 7, 1, 6, 33, false, 0},
                        {90, 40, 1, 1, 8, false, 9}})
    for (const Format format : {Format::bf16, Format::int8}) {
      SCOPED_TRACE(std::string(format_name(format)) + ", tokens " + std::to_string(c.tokens));
      const auto key = random_tensor<float>(Shape{Index{1}, c.tokens, c.kv_heads, c.width}, 1),
                 value = random_tensor<float>(key.shape(), 2),
                 query = random_tensor<float>(Shape{Index{1}, c.queries, c.kv_heads * c.group, c.width}, 3);
      const Kept kept(format, key, value, 0.3F, 100);
      const auto got = attention(kept, query, c.causal, c.window, {c.queries});
      expect_softmax_of_kept(kept, query, c.causal, c.window, got);
      if (!c.causal) continue;
      EXPECT_TRUE(identical(attention(kept, query, true, c.window,
                                      std::vector<Index>(static_cast<std::size_t>(c.queries), 1), Threads(2)),
                            got))
          << "one at a time";
    }
}

// Queries in one tile, some of which see the token: those are NaN, the others have the bits that they have without it.
TEST(KvFormat, WhatIsNotFiniteReachesWhatSeesItAlone) {
  constexpr Index tokens = 560, queries = 30, bad = 545, width = 20, window = 9;
  const auto query = random_tensor<float>(Shape{Index{1}, queries, Index{4}, width}, 3);
  auto key = random_tensor<float>(Shape{Index{1}, tokens, Index{2}, width}, 1),
       value = random_tensor<float>(key.shape(), 2);
  for (const Format format : {Format::bf16, Format::int8})
    for (const Index within : {Index{0}, window}) {
      const auto clean = attention(Kept(format, key, value, 0.3F, 100), query, true, within, {queries});
      for (const bool in_key : {true, false})
        for (const float x : {nan, kv_infinity, -kv_infinity}) {
          Tensor<float, 4> other = in_key ? key : value;
          std::fill_n(&other(0, bad, 1, 0), in_key ? 1 : width, x);
          const Kept kept(format, in_key ? other : key, in_key ? value : other, 0.3F, 100);
          const auto got = attention(kept, query, true, within, {queries});
          for (Index i = 0; i < queries; ++i)
            for (Index h = 0; h < 4; ++h) {
              const Index own = tokens - queries + i;
              const bool sees = h >= 2 && own >= bad && (within == 0 || own - bad < within);
              for (Index e = 0; e < width; ++e) {
                // A score of −∞ is that of a key without weight: in bf16, as in float.
                const float y = got(0, i, h, e);
                const bool as_wanted = !sees                                     ? y == clean(0, i, h, e)
                                       : format == Format::int8 || std::isnan(x) ? std::isnan(y)
                                       : in_key                                  ? true
                                                                                 : !std::isfinite(y);
                ASSERT_TRUE(as_wanted) << y << " for query " << i << ", head " << h;
              }
            }
          EXPECT_TRUE(identical(attention(kept, query, true, within, std::vector<Index>(queries, 1)), got));
        }
    }
}

}  // namespace eigenformer::test
