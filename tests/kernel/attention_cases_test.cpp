// Attention by hand: scores 0, or one number, so that the weights are known.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "eigenformer/kernel/attention.hpp"
#include "support/tensors.hpp"

using namespace eigenformer;

namespace {

/// One head of width 1, scores 0: every query gets the mean of the values that it sees.
template <class Score = kernel::PlainScore>
std::vector<float> means(Index queries, const std::vector<float>& values, const Mask& mask, const Score& score = {}) {
  const auto keys = static_cast<Index>(values.size());
  const Tensor<float, 4> query(Shape{Index{1}, queries, Index{1}, Index{1}}),
      key(Shape{Index{1}, keys, Index{1}, Index{1}});
  std::vector<float> output(static_cast<std::size_t>(queries), NAN);
  Tensor<kernel::AttentionRow<float>, 3> rows(Shape{Index{1}, Index{1}, queries});
  Arena arena;
  kernel::attention_forward<float>({}, arena, {query, key, {values.data(), key.shape()}, 1, mask},
                                   {output.data(), query.shape()}, rows, score);
  return output;
}

/// The same from a cache, `step` queries at a time, as many of them as values.
template <class Score = kernel::PlainScore>
std::vector<float> cached_means(Index step, const std::vector<float>& values, const Mask& mask,
                                const Score& score = {}) {
  const auto keys = static_cast<Index>(values.size());
  const kernel::KvBlock<float> empty{nullptr, kernel::KvBlock<float>::fitting(keys, kernel::key_block<float>), 1, 1};
  std::vector<float> memory(static_cast<std::size_t>(empty.size())), output(values.size(), NAN);
  const kernel::KvBlock<float> block{memory.data(), empty.capacity, 1, 1};
  const Tensor<float, 2> key(Shape{keys, Index{1}});
  block.put(0, 0, key, {values.data(), key.shape()}, 1);
  Arena arena;
  for (Index i = 0; i < keys; i += step) {
    const Index count = (std::min)(step, keys - i);
    const Tensor<float, 4> query(Shape{Index{1}, count, Index{1}, Index{1}});
    const kernel::CachedAttentionInputs<float>::Sequence sequence[] = {{0, count, i + count, &block}};
    kernel::cached_attention_forward<float>({}, arena, {query, {sequence, Shape<1>{1}}, 1, mask.causal, mask.window},
                                            {output.data() + i, query.shape()}, score);
  }
  return output;
}

/// Of all scores 0: dL/dq, dL/dk, dL/dv for dL/dy of 1 everywhere.
struct MeanSlopes {
  Tensor<float, 4> dquery, dkey, dvalue;

  MeanSlopes(Index queries, const Tensor<float, 4>& value, const Mask& mask)
      : dquery(Shape{value.extent(0), queries, Index{1}, Index{1}}), dkey(value.shape()), dvalue(value.shape()) {
    const Tensor<float, 4> query(dquery.shape()), key(value.shape());
    Tensor<float, 4> output(query.shape()), doutput(query.shape());
    std::fill_n(doutput.data(), doutput.size(), 1.0f);
    Tensor<kernel::AttentionRow<float>, 3> rows(Shape{value.extent(0), Index{1}, queries});
    Arena arena;
    const kernel::AttentionInputs<float> in{query, key, value, 1, mask};
    kernel::attention_forward<float>({}, arena, in, output, rows);
    kernel::attention_backward<float>({}, arena, in, output, rows, doutput, {dquery, false}, {dkey, false},
                                      {dvalue, false});
  }
};

struct Rows {
  bool values[5][5];
  ConstView<bool, 2> view(Index rows, Index columns) const { return {&values[0][0], {rows, columns}, {5, 1}}; }
};

}  // namespace

TEST(Attention, CausalMasksEndTogether) {
  EXPECT_EQ(means(2, {1, 2, 3, 4, 5}, {.causal = true}), (std::vector<float>{2.5, 3}));
  EXPECT_EQ(means(5, {1, 2}, {.causal = true}), (std::vector<float>{0, 0, 0, 1, 1.5}));
  EXPECT_EQ(means(3, {1, 2, 3}, {.causal = true}), (std::vector<float>{1, 1.5, 2}));
}

TEST(Attention, CausalWithLengths) {
  const std::vector<Index> two{2}, three{3}, four{4};
  EXPECT_EQ(means(2, {1, 2, 3, 40, 50}, {.causal = true, .key_lengths = three}), (std::vector<float>{1.5, 2}))
      << "j ≤ i + 3 − 2";
  EXPECT_EQ(means(4, {1, 2, 3, 4}, {.causal = true, .key_lengths = two, .query_lengths = two}),
            (std::vector<float>{1, 1.5, 0, 0}));
  EXPECT_EQ(means(2, {1, 2, 3, 4, 50}, {.causal = true, .key_lengths = four}), (std::vector<float>{2, 2.5}));
}

TEST(Attention, LeftPaddingAndCausality) {
  Rows keep{};
  for (auto& row : keep.values) row[3] = row[4] = true;
  EXPECT_EQ(means(5, {1, 2, 3, 4, 5}, {.causal = true, .allowed = keep.view(5, 5)}),
            (std::vector<float>{0, 0, 0, 4, 4.5}));
}

TEST(Attention, TrueMeansMayAttend) {
  const std::vector<Index> two{2};
  EXPECT_EQ(means(4, {1, 2, 30, 40}, {.key_lengths = two}), (std::vector<float>{1.5, 1.5, 1.5, 1.5}));
  Rows keep{};
  for (auto& row : keep.values) row[0] = row[1] = true;
  EXPECT_EQ(means(4, {1, 2, 30, 40}, {.allowed = keep.view(4, 4)}), (std::vector<float>{1.5, 1.5, 1.5, 1.5}));
  EXPECT_EQ(means(4, {1, 2, 30, 40}, {.allowed = keep.view(1, 4)}), (std::vector<float>{1.5, 1.5, 1.5, 1.5}))
      << "one row for all queries";
}

TEST(Attention, ARowThatSeesNothingIsZeroAndTheOthersStay) {
  Rows keep{};
  for (int i : {0, 2, 3})
    for (int j = 0; j < 4; ++j) keep.values[i][j] = true;
  EXPECT_EQ(means(4, {1, 2, 3, 4}, {.allowed = keep.view(4, 4)}), (std::vector<float>{2.5, 0, 2.5, 2.5}));
  Tensor<float, 4> value(Shape{1, 4, 1, 1});
  for (Index j = 0; j < 4; ++j) value(0, j, 0, 0) = static_cast<float>(j + 1);
  const MeanSlopes slopes(4, value, {.allowed = keep.view(4, 4)});
  for (Index j = 0; j < 4; ++j) {
    EXPECT_EQ(slopes.dvalue(0, j, 0, 0), 0.75f) << "three queries give a quarter each";
    EXPECT_EQ(slopes.dquery(0, j, 0, 0), 0);
    EXPECT_EQ(slopes.dkey(0, j, 0, 0), 0);
  }
}

// Each sequence of a batch has its own padding, and one of them nothing else.
TEST(Attention, LengthsOfABatch) {
  constexpr Index tokens = 5;
  const std::vector<Index> lengths{5, 3, 1, 0};
  const Tensor<float, 4> query(Shape{Index{4}, tokens, Index{1}, Index{1}}), key(query.shape());
  Tensor<float, 4> value(query.shape()), output(query.shape());
  for (Index i = 0; i < value.size(); ++i) value.data()[i] = static_cast<float>(i % tokens + 1);
  Tensor<kernel::AttentionRow<float>, 3> rows(Shape{Index{4}, Index{1}, tokens});
  Arena arena;
  kernel::attention_forward<float>({}, arena, {query, key, value, 1, {.key_lengths = lengths}}, output, rows);
  const MeanSlopes slopes(tokens, value, {.key_lengths = lengths});
  const float means[] = {3, 2, 1, 0}, shares[] = {1, 5.0f / 3, 5, 0};
  for (Index b = 0; b < 4; ++b)
    for (Index i = 0; i < tokens; ++i) {
      EXPECT_FLOAT_EQ(output(b, i, 0, 0), means[b]);
      EXPECT_FLOAT_EQ(slopes.dvalue(b, i, 0, 0), i < lengths[static_cast<std::size_t>(b)] ? shares[b] : 0);
      EXPECT_TRUE(std::isfinite(slopes.dquery(b, i, 0, 0)) && std::isfinite(slopes.dkey(b, i, 0, 0)));
    }
}

TEST(Attention, AWindowCountsItsOwnToken) {
  const std::vector<float> six{1, 2, 3, 4, 5, 6}, want{1, 1.5, 2, 3, 4, 5};
  EXPECT_EQ(means(6, six, {.causal = true, .window = 3}), want);
  EXPECT_EQ(cached_means(1, six, {.causal = true, .window = 3}), want);
  EXPECT_EQ(cached_means(4, six, {.causal = true, .window = 3}), want);
  std::vector<float> many(300);
  std::iota(many.begin(), many.end(), 1.0f);
  EXPECT_EQ(means(300, many, {.causal = true, .window = 3}).back(), 299);
  EXPECT_EQ(cached_means(7, many, {.causal = true, .window = 3}).back(), 299);
}

// However wide, up to the last number there is.
TEST(Attention, AWindowWiderThanEverythingIsNone) {
  const std::vector<float> six{1, 2, 3, 4, 5, 6};
  constexpr Index most = (std::numeric_limits<Index>::max)();
  for (const Index window : {Index{6}, Index{11}, most - 6, most - 1, most}) {
    EXPECT_EQ(means(6, six, {.window = window}), means(6, six, {})) << window;
    EXPECT_EQ(means(6, six, {.causal = true, .window = window}), (std::vector<float>{1, 1.5, 2, 2.5, 3, 3.5}))
        << window;
    EXPECT_EQ(means(8, six, {.causal = true, .window = window}), (std::vector<float>{0, 0, 1, 1.5, 2, 2.5, 3, 3.5}))
        << window;
    EXPECT_EQ(cached_means(1, six, {.causal = true, .window = window}), (std::vector<float>{1, 1.5, 2, 2.5, 3, 3.5}))
        << window;
  }
}

// A cap bounds what is seen, not what is hidden.
TEST(Attention, CapsComeBeforeMasks) {
  const kernel::CappedScore<float> cap{1};
  EXPECT_EQ(means(2, {1, 100}, {.causal = true}, cap), (std::vector<float>{1, 50.5}));
  EXPECT_EQ(cached_means(1, {1, 100}, {.causal = true}, cap), (std::vector<float>{1, 50.5}));
  EXPECT_EQ(cached_means(2, {1, 100}, {.causal = true}, cap), (std::vector<float>{1, 50.5}));
  Rows keep{};
  keep.values[0][0] = keep.values[2][1] = true;
  EXPECT_EQ(means(3, {1, 100}, {.allowed = keep.view(3, 2)}, cap), (std::vector<float>{1, 0, 100}));
}

// A NaN at token 0 behind a window of two: queries 0 and 1 see it.
TEST(Attention, ANanBehindAWindow) {
  std::vector<float> values(300);
  std::iota(values.begin(), values.end(), 0.0f);
  values[0] = NAN;
  const auto whole = means(300, values, {.causal = true, .window = 2}),
             cached = cached_means(11, values, {.causal = true, .window = 2});
  for (std::size_t i = 0; i < values.size(); ++i)
    if (i < 2) EXPECT_TRUE(std::isnan(whole[i]) && std::isnan(cached[i])) << i;
    else
      EXPECT_TRUE(whole[i] == static_cast<float>(i) - 0.5f && cached[i] == whole[i])
          << i << ": " << whole[i] << ' ' << cached[i];
}

// What comes back for a query that sees nothing says nothing about its sink.
TEST(Attention, HiddenQueriesLeaveSinksAlone) {
  const Tensor<float, 4> query(Shape{1, 3, 1, 1}), key(query.shape());
  Tensor<float, 4> value(query.shape()), output(query.shape()), doutput(query.shape());
  std::fill_n(value.data(), 3, 1.0f), std::fill_n(doutput.data(), 3, 1.0f);
  Rows keep{};
  keep.values[0][0] = true;
  const std::vector<Index> two{2};
  Tensor<float, 1> sinks(Shape{1}), dsinks(Shape{1});
  Tensor<kernel::AttentionRow<float>, 3> rows(Shape{1, 1, 3});
  Arena arena;
  const kernel::AttentionInputs<float> in{query, key,  value, 1, {.query_lengths = two, .allowed = keep.view(3, 3)},
                                          {},    sinks};
  kernel::attention_forward<float>({}, arena, in, output, rows);
  doutput(0, 1, 0, 0) = doutput(0, 2, 0, 0) = NAN;  // hidden by `allowed`, and by the length
  kernel::attention_backward<float>({}, arena, in, output, rows, doutput, {}, {}, {}, {}, {dsinks, false});
  EXPECT_EQ(output(0, 0, 0, 0), 0.5f);
  EXPECT_EQ(dsinks(0), -0.25f) << "the derivative of 1/(1 + eˢ) at 0";
}

// Heads of one fused buffer, and values that lie by head: as copies of them, forward and backward.
TEST(Attention, AnyStrides) {
  constexpr Index batch = 2, tokens = 49, heads = 2, width = 32;
  const Shape<4> shape{batch, tokens, heads, width};
  const auto fused = test::random_tensor<float>(Shape{batch, tokens, 2 * heads, width}, 1),
             by_head = test::random_tensor<float>(Shape{batch, heads, tokens, width}, 2);
  const auto q = fused.view().slice(2, 0, heads), k = fused.view().slice(2, heads, heads);
  const ConstView<float, 4> v{by_head.data(), shape, {heads * tokens * width, width, tokens * width, 1}};
  const auto slope = test::random_tensor<float>(shape, 3);
  const auto run = [&](ConstView<float, 4> query, ConstView<float, 4> key, ConstView<float, 4> value) {
    std::vector<Tensor<float, 4>> results(4, Tensor<float, 4>(shape));
    Tensor<kernel::AttentionRow<float>, 3> rows(Shape{batch, heads, tokens});
    Arena arena;
    const kernel::AttentionInputs<float> in{query, key, value, 0.2f, {.causal = true}};
    kernel::attention_forward<float>({}, arena, in, results[0], rows);
    kernel::attention_backward<float>({}, arena, in, results[0], rows, slope, {results[1], false}, {results[2], false},
                                      {results[3], false});
    return results;
  };
  const auto copy = [&](ConstView<float, 4> x) {
    Tensor<float, 4> y(shape);
    for (Index b = 0; b < batch; ++b)
      for (Index n = 0; n < tokens; ++n)
        for (Index h = 0; h < heads; ++h) std::copy_n(&x(b, n, h, 0), width, &y(b, n, h, 0));
    return y;
  };
  const auto strided = run(q, k, v), copied = run(copy(q), copy(k), copy(v));
  for (std::size_t i = 0; i < 4; ++i) EXPECT_TRUE(test::identical(strided[i], copied[i])) << i;
}

TEST(Attention, NoKeysGiveZeros) { EXPECT_EQ(means(3, {}, {}), (std::vector<float>{0, 0, 0})); }

// kv head = h / (H/K): heads of a group lie side by side.
TEST(Attention, GroupsOfHeadsShareTheirKeys) {
  const Tensor<float, 4> query(Shape{1, 1, 4, 1}), key(Shape{1, 1, 2, 1});
  Tensor<float, 4> value(Shape{1, 1, 2, 1}), output(Shape{1, 1, 4, 1}), doutput(output.shape()), dvalue(value.shape());
  Tensor<kernel::AttentionRow<float>, 3> rows(Shape{1, 4, 1});
  value(0, 0, 0, 0) = 10;
  value(0, 0, 1, 0) = 20;
  for (Index h = 0; h < 4; ++h) doutput(0, 0, h, 0) = static_cast<float>(1 << h);
  Arena arena;
  const kernel::AttentionInputs<float> in{query, key, value, 1};
  kernel::attention_forward<float>({}, arena, in, output, rows);
  EXPECT_EQ(output(0, 0, 0, 0), 10);
  EXPECT_EQ(output(0, 0, 1, 0), 10);
  EXPECT_EQ(output(0, 0, 2, 0), 20);
  EXPECT_EQ(output(0, 0, 3, 0), 20);
  kernel::attention_backward<float>({}, arena, in, output, rows, doutput, {}, {}, {dvalue, false});
  EXPECT_EQ(dvalue(0, 0, 0, 0), 1 + 2) << "the group's gradients add up in their one head";
  EXPECT_EQ(dvalue(0, 0, 1, 0), 4 + 8);
}

// q·k = 8 for one key and 0 for the other: σ(8·scale).
TEST(Attention, ScalesTheScores) {
  for (const auto& [scale, weight] : {std::pair{0.125f, 0.731059}, std::pair{1.0f, 0.999665}}) {
    Tensor<float, 4> query(Shape{1, 1, 1, 64}), key(Shape{1, 2, 1, 64}), value(Shape{1, 2, 1, 64}),
        output(query.shape());
    Tensor<kernel::AttentionRow<float>, 3> rows(Shape{1, 1, 1});
    for (Index e = 0; e < 64; ++e) query(0, 0, 0, e) = 0.5f, key(0, 0, 0, e) = 0.25f;
    value(0, 0, 0, 0) = 1;
    value(0, 1, 0, 1) = 1;
    Arena arena;
    kernel::attention_forward<float>({}, arena, {query, key, value, scale}, output, rows);
    EXPECT_NEAR(output(0, 0, 0, 0), weight, 1e-6);
    EXPECT_NEAR(output(0, 0, 0, 1), 1 - weight, 1e-6);
  }
}

// A sink of score 0 beside scores of 0 takes its share and gives nothing; one of −∞ changes nothing.
TEST(Attention, SinksTakeTheirShare) {
  const Tensor<float, 4> query(Shape{1, 2, 1, 1}), key(Shape{1, 3, 1, 1});
  Tensor<float, 4> value(key.shape()), output(query.shape());
  for (Index j = 0; j < 3; ++j) value(0, j, 0, 0) = static_cast<float>(j + 1);
  Tensor<kernel::AttentionRow<float>, 3> rows(Shape{1, 1, 2});
  Tensor<float, 1> sinks(Shape{1});
  Arena arena;
  kernel::attention_forward<float>({}, arena, {query, key, value, 1, {}, {}, sinks}, output, rows);
  EXPECT_FLOAT_EQ(output(0, 0, 0, 0), 6.0f / 4);
  sinks(0) = -INFINITY;
  kernel::attention_forward<float>({}, arena, {query, key, value, 1, {}, {}, sinks}, output, rows);
  EXPECT_FLOAT_EQ(output(0, 1, 0, 0), 2);
}

// However large a score is, the weight of the largest is its own: padding by the lowest number, more of it than a block
// of keys.
TEST(Attention, AnySizeOfScores) {
  for (const float lowest : {-1e9f, -1e10f, -1e20f, -3.4028235e38f}) {
    const Tensor<float, 4> query(Shape{1, 1, 1, 1}), key(Shape{1, 600, 1, 1});
    Tensor<float, 4> value(key.shape()), output(query.shape()), bias(Shape{1, 1, 1, 600});
    for (Index j = 0; j < 600; ++j) value(0, j, 0, 0) = j < 550 ? 7 : 1, bias(0, 0, 0, j) = j < 550 ? lowest : 0;
    Tensor<kernel::AttentionRow<float>, 3> rows(Shape{1, 1, 1});
    Arena arena;
    const auto forward = [&] {
      kernel::attention_forward<float>({}, arena, {query, key, value, 1}, output, rows, kernel::BiasScore<float>{bias});
      return output(0, 0, 0, 0);
    };
    EXPECT_FLOAT_EQ(forward(), 1) << lowest;
    for (Index j = 550; j < 600; ++j) bias(0, 0, 0, j) = lowest;
    EXPECT_FLOAT_EQ(forward(), (550.0f * 7 + 50) / 600) << "all of them " << lowest;
  }
  for (const float score : {-1e38f, -1e10f, 1e10f, 3e10f, 1e20f, 1e38f}) {
    Tensor<float, 4> query(Shape{1, 1, 1, 1}), key(query.shape()), value(query.shape()), output(query.shape()),
        slope(query.shape()), dvalue(query.shape());
    query(0, 0, 0, 0) = score, key(0, 0, 0, 0) = value(0, 0, 0, 0) = slope(0, 0, 0, 0) = 1;
    Tensor<kernel::AttentionRow<float>, 3> rows(Shape{1, 1, 1});
    Arena arena;
    kernel::attention_forward<float>({}, arena, {query, key, value, 1}, output, rows);
    kernel::attention_backward<float>({}, arena, {query, key, value, 1}, output, rows, slope, {}, {}, {dvalue, false});
    EXPECT_EQ(output(0, 0, 0, 0), 1) << score;
    EXPECT_EQ(dvalue(0, 0, 0, 0), 1) << score;
    Tensor<float, 1> sinks(Shape{1});
    sinks(0) = score;
    kernel::attention_forward<float>({}, arena, {query, key, value, 1, {}, {}, sinks}, output, rows);
    EXPECT_EQ(output(0, 0, 0, 0), 0.5f) << "a sink as large as the score";
  }
}
