// Attention by hand: scores 0, or one number, so that the weights are known.
#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "eigenformer/kernel/attention.hpp"

using namespace eigenformer;

namespace {

/// One head of width 1, scores 0: every query gets the mean of the values that it sees.
std::vector<float> means(Index queries, const std::vector<float>& values, const Mask& mask) {
  const auto keys = static_cast<Index>(values.size());
  const Tensor<float, 4> query(Shape{Index{1}, queries, Index{1}, Index{1}}), key(Shape{Index{1}, keys, Index{1}, Index{1}});
  std::vector<float> output(static_cast<std::size_t>(queries), NAN);
  Tensor<kernel::AttentionRow<float>, 3> rows(Shape{Index{1}, Index{1}, queries});
  Arena arena;
  kernel::attention_forward<float>({}, arena, {query, key, {values.data(), key.shape()}, 1, mask}, {output.data(), query.shape()},
                                   rows);
  return output;
}

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
  EXPECT_EQ(means(2, {1, 2, 3, 40, 50}, {.causal = true, .key_lengths = three}), (std::vector<float>{1.5, 2})) << "j ≤ i + 3 − 2";
  EXPECT_EQ(means(4, {1, 2, 3, 4}, {.causal = true, .key_lengths = two, .query_lengths = two}), (std::vector<float>{1, 1.5, 0, 0}));
  EXPECT_EQ(means(2, {1, 2, 3, 4, 50}, {.causal = true, .key_lengths = four}), (std::vector<float>{2, 2.5}));
}

TEST(Attention, LeftPaddingAndCausality) {
  Rows keep{};
  for (auto& row : keep.values) row[3] = row[4] = true;
  EXPECT_EQ(means(5, {1, 2, 3, 4, 5}, {.causal = true, .allowed = keep.view(5, 5)}), (std::vector<float>{0, 0, 0, 4, 4.5}));
}

TEST(Attention, TrueMeansMayAttend) {
  const std::vector<Index> two{2};
  EXPECT_EQ(means(4, {1, 2, 30, 40}, {.key_lengths = two}), (std::vector<float>{1.5, 1.5, 1.5, 1.5}));
  Rows keep{};
  for (auto& row : keep.values) row[0] = row[1] = true;
  EXPECT_EQ(means(4, {1, 2, 30, 40}, {.allowed = keep.view(4, 4)}), (std::vector<float>{1.5, 1.5, 1.5, 1.5}));
  EXPECT_EQ(means(4, {1, 2, 30, 40}, {.allowed = keep.view(1, 4)}), (std::vector<float>{1.5, 1.5, 1.5, 1.5})) << "one row for all queries";
}

TEST(Attention, ARowThatSeesNothingIsZeroAndTheOthersStay) {
  Rows keep{};
  for (int i : {0, 2, 3})
    for (int j = 0; j < 4; ++j) keep.values[i][j] = true;
  EXPECT_EQ(means(4, {1, 2, 3, 4}, {.allowed = keep.view(4, 4)}), (std::vector<float>{2.5, 0, 2.5, 2.5}));
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
    Tensor<float, 4> query(Shape{1, 1, 1, 64}), key(Shape{1, 2, 1, 64}), value(Shape{1, 2, 1, 64}), output(query.shape());
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

// However large a score is, the weight of the largest is its own: padding by the lowest number, more of it than a block of keys.
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
    Tensor<float, 4> query(Shape{1, 1, 1, 1}), key(query.shape()), value(query.shape()), output(query.shape()), slope(query.shape()), dvalue(query.shape());
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
