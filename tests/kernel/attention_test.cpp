// Attention against the oracle: sizes, layouts, grouped heads, masks and dropout, forward and backward.
#include "eigenformer/kernel/attention.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "support/guarded.hpp"
#include "support/oracle.hpp"
#include "support/tolerance.hpp"

using namespace eigenformer;
using namespace eigenformer::test;

namespace {

struct Sizes {
  Index batch, heads, kv_heads, queries, keys, width;
};

using Sees = std::function<bool(Index b, Index h, Index i, Index j)>;
const Sees everything = [](Index, Index, Index, Index) { return true; };

/// What a score does to s = scale·q·k, its derivative by s, and where the derivative by what it adds is collected.
struct Bend {
  std::function<double(Index b, Index h, Index i, Index j, double s)> value = [](Index, Index, Index, Index, double s) {
    return s;
  };
  std::function<double(Index b, Index h, Index i, Index j, double s)> slope = [](Index, Index, Index, Index, double) {
    return 1.0;
  };
  std::function<void(Index b, Index h, Index i, Index j, double slope)> collect = [](Index, Index, Index, Index,
                                                                                     double) {};
};

/// The kernel, forward and backward, into NaN and into numbers, against the oracle.
template <class T, class Score = kernel::PlainScore>
void check(const Sizes& n, Layout layout, const Mask& mask = {}, const Sees& sees = everything, double scale = 0.3,
           const kernel::Dropout& dropout = {}, const Score& score = {}, const Bend& bend = {}) {
  const Shape<4> query_shape{n.batch, n.queries, n.heads, n.width}, key_shape{n.batch, n.keys, n.kv_heads, n.width};
  const Shape<3> row_shape{n.batch, n.heads, n.queries};
  const Guarded<T, 4> query(query_shape, layout, 1), key(key_shape, layout, 2), value(key_shape, layout, 3),
      doutput(query_shape, layout, 4), output(query_shape, layout);
  Tensor<kernel::AttentionRow<T>, 3> rows(row_shape);
  const kernel::AttentionInputs<T> in{query, key, value, static_cast<T>(scale), mask, dropout};
  oracle::Attention want{query.values(), key.values(), value.values(), static_cast<double>(in.scale),
                         sees,           bend.value,   bend.slope,     bend.collect};
  Tensor<double, 4> factors(Shape{n.batch, n.heads, n.queries, n.keys});
  if (dropout) {
    // Documented: row (b·H + h)·N + n, column m of a dropout mask.
    Tensor<double, 4> ones(factors.shape());
    std::fill_n(ones.data(), ones.size(), 1.0);
    kernel::dropout_forward<double>({}, ones.view().flat(), {}, dropout, factors.view().flat());
    want.factor = [&](Index b, Index h, Index i, Index j) { return factors(b, h, i, j); };
  }
  Arena arena;
  kernel::attention_forward<T>({}, arena, in, output, rows, score);
  const auto forward = want.forward();
  expect_close(output, forward.output, Tolerance<T>::attention);
  for (Index b = 0; b < n.batch; ++b)
    for (Index h = 0; h < n.heads; ++h)
      for (Index i = 0; i < n.queries; ++i) {
        bool open = false;
        for (Index j = 0; j < n.keys; ++j) open |= sees(b, h, i, j);
        if (open) continue;
        for (Index e = 0; e < n.width; ++e) ASSERT_EQ(output(b, i, h, e), 0) << "a row that sees nothing is exactly 0";
      }

  const auto slopes = want.backward(doutput.values());
  for (const bool add : {false, true}) {
    const Guarded<T, 4> dquery(query_shape, layout), dkey(key_shape, layout), dvalue(key_shape, layout);
    const auto query_place = prepared(dquery, add), key_place = prepared(dkey, add),
               value_place = prepared(dvalue, !add);
    auto backward = slopes;
    if (add) backward.query.add(dquery.values()), backward.key.add(dkey.values());
    else backward.value.add(dvalue.values());
    kernel::attention_backward<T>({}, arena, in, output, rows, doutput, query_place, key_place, value_place, score);
    expect_close(dquery, backward.query, Tolerance<T>::attention);
    expect_close(dkey, backward.key, Tolerance<T>::attention);
    expect_close(dvalue, backward.value, Tolerance<T>::attention);
  }
}

/// What the documentation of Mask says.
Sees visible(bool causal, std::vector<Index> key_lengths, std::vector<Index> query_lengths, const Sizes& n) {
  return [=](Index b, Index, Index i, Index j) {
    const auto at = static_cast<std::size_t>(b);
    const Index keys = key_lengths.empty() ? n.keys : key_lengths[at],
                queries = query_lengths.empty() ? n.queries : query_lengths[at];
    return i < queries && j < keys && (!causal || j <= i + keys - queries);
  };
}

/// Keys less than `window` away.
Sees near(Index window, const Sizes& n) {
  return [=](Index, Index, Index i, Index j) { return std::abs(i + n.keys - n.queries - j) < window; };
}

}  // namespace

template <class T>
struct AttentionKernel : ::testing::Test {};
using Scalars = ::testing::Types<float, double>;
TYPED_TEST_SUITE(AttentionKernel, Scalars);

TYPED_TEST(AttentionKernel, Sizes) {
  int count = 0;  // the layouts take turns, so that every size of every axis meets each
  for_sizes([&](Index queries, Index keys, Index width) {
    check<TypeParam>({1, 2, 1, queries, keys, width}, layouts[(count / 16 + count % 8) % 4]);
    ++count;
  });
}

// Around blocks of 32 queries and of 128 or 512 keys.
TYPED_TEST(AttentionKernel, BlockEdges) {
  for (const Index queries : {31, 32, 33, 65})
    for (const Index keys : {63, 64, 65, 129})
      check<TypeParam>({1, 2, 2, queries, keys, 9}, {3}, {.causal = true},
                       visible(true, {}, {}, {1, 2, 2, queries, keys, 9}));
  for (const Index keys : {511, 512, 513, 1030}) check<TypeParam>({1, 1, 1, 3, keys, 5}, {});
}

TYPED_TEST(AttentionKernel, Causal) {
  for_sizes([](Index queries, Index keys, Index width) {
    const Sizes n{1, 1, 1, queries, keys, width};
    check<TypeParam>(n, {3}, {.causal = true}, visible(true, {}, {}, n));
  });
}

TYPED_TEST(AttentionKernel, HeadWidths) {
  for (const Index width : {1, 3, 7, 9, 17, 20, 33, 64, 72, 80})
    for_layouts([&](Layout layout) { check<TypeParam>({2, 2, 2, 5, 19, width}, layout); });
}

TYPED_TEST(AttentionKernel, GroupedHeads) {
  for (const auto& [heads, kv_heads] : {std::pair<Index, Index>{4, 4}, {4, 2}, {4, 1}, {6, 2}, {3, 1}})
    check<TypeParam>({2, heads, kv_heads, 5, 9, 8}, {3});
}

TYPED_TEST(AttentionKernel, Lengths) {
  const Sizes n{4, 2, 2, 9, 17, 5};
  const std::vector<Index> keys{17, 0, 1, 11}, queries{9, 4, 0, 6};
  for (const bool causal : {false, true}) {
    check<TypeParam>(n, {3}, {.causal = causal, .key_lengths = keys}, visible(causal, keys, {}, n));
    check<TypeParam>(n, {3}, {.causal = causal, .query_lengths = queries}, visible(causal, {}, queries, n));
    check<TypeParam>(n, {3}, {.causal = causal, .key_lengths = keys, .query_lengths = queries},
                     visible(causal, keys, queries, n));
  }
}

// Windows within a block of keys, across blocks, and wider than everything.
TYPED_TEST(AttentionKernel, Windows) {
  for (const Index window : {1, 2, 7, 64, 600, 2000})
    for (const auto& [queries, keys] : {std::pair<Index, Index>{9, 9}, {5, 40}, {40, 5}, {13, 1100}, {130, 700}}) {
      const Sizes n{1, 2, 1, queries, keys, 5};
      if (queries * keys > 20000 && window % 2 == 1) continue;
      check<TypeParam>(n, {3}, {.window = window}, near(window, n));
      const Sees causal = visible(true, {}, {}, n), close = near(window, n);
      check<TypeParam>(n, {}, {.causal = true, .window = window},
                       [&](Index b, Index h, Index i, Index j) { return causal(b, h, i, j) && close(b, h, i, j); });
    }
}

TYPED_TEST(AttentionKernel, WindowsWithLengths) {
  const Sizes n{3, 2, 2, 9, 17, 5};
  const std::vector<Index> keys{17, 0, 11}, queries{9, 4, 6};
  const Sees causal = visible(true, keys, queries, n);
  check<TypeParam>(n, {3}, {.causal = true, .window = 3, .key_lengths = keys, .query_lengths = queries},
                   [&](Index b, Index h, Index i, Index j) {
                     const auto at = static_cast<std::size_t>(b);
                     return causal(b, h, i, j) && i + keys[at] - queries[at] - j < 3;
                   });
}

TYPED_TEST(AttentionKernel, PrefixesAreSeenByAll) {
  const Sizes n{3, 2, 2, 9, 12, 5};
  const std::vector<Index> prefixes{0, 7, 12}, lengths{12, 12, 10};
  const Sees causal = visible(true, lengths, {}, n);
  check<TypeParam>(n, {3}, {.causal = true, .key_lengths = lengths, .prefixes = prefixes},
                   [&](Index b, Index h, Index i, Index j) {
                     const auto at = static_cast<std::size_t>(b);
                     return j < lengths[at] && (j < prefixes[at] || causal(b, h, i, j));
                   });
}

TYPED_TEST(AttentionKernel, AlibiScores) {
  using T = TypeParam;
  for (const auto& [queries, keys] : {std::pair<Index, Index>{7, 7}, {5, 33}, {20, 600}}) {
    const Sizes n{2, 4, 2, queries, keys, 5};
    const Guarded<T, 1> slopes(Shape{4}, {}, 9);
    Bend bend;
    bend.value = [&](Index, Index h, Index i, Index j, double s) {
      return s - static_cast<double>(slopes(h)) * static_cast<double>(std::abs(i + n.keys - n.queries - j));
    };
    check<T>(n, {3}, {}, everything, 0.3, {}, kernel::AlibiScore<T>{slopes}, bend);
    check<T>(n, {3}, {.causal = true}, visible(true, {}, {}, n), 0.3, {}, kernel::AlibiScore<T>{slopes}, bend);
  }
}

TYPED_TEST(AttentionKernel, DistanceScoresAndTheirGradient) {
  using T = TypeParam;
  for (const auto& [queries, keys] : {std::pair<Index, Index>{7, 7}, {5, 33}, {20, 600}})
    for (const Index before : {0, 3, 40}) {
      const Sizes n{2, 4, 2, queries, keys, 5};
      const Guarded<T, 4> bias(Shape{1, 4, 1, 44}, {}, 9), slope(Shape{1, 4, 1, 44});
      Tensor<double, 2> want(Shape{4, 44});
      Bend bend;
      const auto column = [&](Index i, Index j) {
        return std::clamp(j - (i + n.keys - n.queries) + before, Index{0}, Index{43});
      };
      bend.value = [&](Index, Index h, Index i, Index j, double s) {
        return s + static_cast<double>(bias(0, h, 0, column(i, j)));
      };
      bend.collect = [&](Index, Index h, Index i, Index j, double s) { want(h, column(i, j)) += s; };
      slope.fill([] { return 0; });
      check<T>(n, {3}, {.causal = before == 40}, before == 40 ? visible(true, {}, {}, n) : everything, 0.3, {},
               kernel::DistanceScore<T>{bias, before, {slope, true}}, bend);
      for (Index h = 0; h < 4; ++h)  // the check calls the kernel twice, and the oracle once
        for (Index d = 0; d < 44; ++d)
          ASSERT_NEAR(slope(0, h, 0, d), 2 * want(h, d), 1000 * static_cast<double>(std::numeric_limits<T>::epsilon()))
              << h << ' ' << d;
    }
}

TYPED_TEST(AttentionKernel, BiasScoresAndTheirGradient) {
  using T = TypeParam;
  const Sizes n{2, 4, 2, 9, 37, 5};
  for (const auto& shape :
       {Shape<4>{2, 4, 9, 37}, Shape<4>{1, 4, 9, 37}, Shape<4>{1, 1, 9, 37}, Shape<4>{2, 1, 1, 37}}) {
    const Guarded<T, 4> bias(shape, {}, 9), slope(shape);
    Tensor<double, 4> want(shape);
    const auto place = [&](Index b, Index h, Index i, Index j) {
      return std::array{shape[0] == 1 ? Index{0} : b, shape[1] == 1 ? Index{0} : h, shape[2] == 1 ? Index{0} : i, j};
    };
    Bend bend;
    bend.value = [&](Index b, Index h, Index i, Index j, double s) {
      const auto [b1, h1, i1, j1] = place(b, h, i, j);
      return s + static_cast<double>(bias(b1, h1, i1, j1));
    };
    bend.collect = [&](Index b, Index h, Index i, Index j, double s) {
      const auto [b1, h1, i1, j1] = place(b, h, i, j);
      want(b1, h1, i1, j1) += s;
    };
    slope.fill([] { return 0; });
    check<T>(n, {3}, {}, everything, 0.3, {}, kernel::BiasScore<T>{bias, {slope, true}}, bend);
    for (Index i = 0; i < want.size(); ++i)
      ASSERT_NEAR(slope.view().data()[i], 2 * want.data()[i],
                  1000 * static_cast<double>(std::numeric_limits<T>::epsilon()));
  }
}

TYPED_TEST(AttentionKernel, CappedScores) {
  using T = TypeParam;
  Bend bend;
  bend.value = [&](Index, Index, Index, Index, double s) { return 2 * std::tanh(s / 2); };
  bend.slope = [&](Index, Index, Index, Index, double s) { return 1 - std::tanh(s / 2) * std::tanh(s / 2); };
  for (const auto& [queries, keys] : {std::pair<Index, Index>{7, 7}, {5, 33}, {20, 600}}) {
    const Sizes n{2, 2, 2, queries, keys, 5};
    for (const double scale : {0.3, 4.0})
      check<T>(n, {3}, {.causal = true}, visible(true, {}, {}, n), scale, {}, kernel::CappedScore<T>{2}, bend);
  }
}

TYPED_TEST(AttentionKernel, ArbitraryMasks) {
  const Sizes n{2, 3, 3, 7, 37, 5};
  auto draw = [numbers = Numbers(6)]() mutable { return numbers() > 0; };
  const Guarded<bool, 2> shared(Shape{n.queries, n.keys}, {3});
  const Guarded<bool, 3> per_sequence(Shape{n.batch, n.queries, n.keys}, {3});
  const Guarded<bool, 4> full(Shape{n.batch, n.heads, n.queries, n.keys}, {3}),
      per_head(Shape{Index{1}, n.heads, Index{1}, n.keys}, {3});
  shared.fill(draw), per_sequence.fill(draw), full.fill(draw), per_head.fill(draw);
  for (Index j = 0; j < n.keys; ++j) {
    shared(3, j) = false;
    full(1, 2, 4, j) = false;
    per_sequence(0, 0, j) = j == 36;
  }
  check<TypeParam>(n, {3}, {.allowed = shared}, [&](Index, Index, Index i, Index j) { return shared(i, j); });
  check<TypeParam>(n, {3}, {.allowed = per_sequence},
                   [&](Index b, Index, Index i, Index j) { return per_sequence(b, i, j); });
  check<TypeParam>(n, {3}, {.allowed = full}, [&](Index b, Index h, Index i, Index j) { return full(b, h, i, j); });
  check<TypeParam>(n, {3}, {.allowed = per_head}, [&](Index, Index h, Index, Index j) { return per_head(0, h, 0, j); });
  const std::vector<Index> lengths{30, 37};
  const Sees limits = visible(true, lengths, {}, n);
  check<TypeParam>(n, {3}, {.causal = true, .key_lengths = lengths, .allowed = full},
                   [&](Index b, Index h, Index i, Index j) { return full(b, h, i, j) && limits(b, h, i, j); });
}

// Rows that see nothing of the first blocks of keys, or of the last, or anything at all.
TYPED_TEST(AttentionKernel, MasksAcrossBlocks) {
  const Sizes n{1, 2, 1, 37, 1100, 5};
  const Guarded<bool, 2> allowed(Shape{n.queries, n.keys});
  for (Index i = 0; i < n.queries; ++i)
    for (Index j = 0; j < n.keys; ++j)
      allowed(i, j) = i % 5 == 0   ? j >= 1030
                      : i % 5 == 1 ? j < 3
                      : i % 5 == 2 ? j == 512 + i
                      : i % 5 == 3 ? j % 7 == 0
                                   : false;
  const Sees may = [&](Index, Index, Index i, Index j) { return allowed(i, j); };
  check<TypeParam>(n, {}, {.allowed = allowed}, may);
  const Sees causal = visible(true, {}, {}, n);
  check<TypeParam>(n, {}, {.causal = true, .allowed = allowed},
                   [&](Index b, Index h, Index i, Index j) { return may(b, h, i, j) && causal(b, h, i, j); });
  check<TypeParam>(n, {}, {.causal = true}, causal, 0.3,
                   {[] {
                      Random random{.seed = 4};
                      return RandomSite(random);
                    }(),
                    0.3});
}

TYPED_TEST(AttentionKernel, DropoutOnTheWeights) {
  Random random{.seed = 3};
  random.start(5);
  for (const double p : {0.1, 0.5, 0.9}) {
    const kernel::Dropout dropout{RandomSite(random), p};
    check<TypeParam>({2, 4, 2, 33, 21, 5}, {3}, {}, everything, 0.3, dropout);
    const Sizes n{2, 4, 2, 9, 21, 5};
    check<TypeParam>(n, {3}, {.causal = true}, visible(true, {}, {}, n), 0.3, dropout);
  }
}

TYPED_TEST(AttentionKernel, LargeScores) {
  check<TypeParam>({1, 2, 2, 9, 35, 16}, {}, {}, everything, 40);
  check<TypeParam>({1, 2, 2, 9, 35, 16}, {}, {}, everything, 0);
}

TYPED_TEST(AttentionKernel, EmptyAxes) {
  check<TypeParam>({2, 2, 2, 3, 0, 5}, {});
  check<TypeParam>({2, 2, 2, 0, 3, 5}, {});
  check<TypeParam>({0, 2, 2, 3, 3, 5}, {});
  check<TypeParam>({2, 2, 2, 3, 0, 5}, {}, {.causal = true}, visible(true, {}, {}, {2, 2, 2, 3, 0, 5}));
}

// Keys beyond the length are padding: whatever lies there, NaN even, reaches nothing, and their gradient is 0.
TYPED_TEST(AttentionKernel, PaddingIsNeverRead) {
  using T = TypeParam;
  const Shape<4> shape{1, 3, 2, 5}, key_shape{1, 40, 2, 5};
  const Guarded<T, 4> query(shape, {}, 1), key(key_shape), value(key_shape), output(shape), doutput(shape, {}, 4),
      dquery(shape), dkey(key_shape), dvalue(key_shape);
  Tensor<kernel::AttentionRow<T>, 3> rows(Shape{1, 2, 3});
  for (const auto* part : {&key, &value})
    for (Index j = 0; j < 11; ++j)
      for (Index e = 0; e < 10; ++e) (*part)(0, j, e / 5, e % 5) = static_cast<T>(static_cast<double>(j * e % 7) / 7);
  const std::vector<Index> lengths{11};
  const kernel::AttentionInputs<T> in{query, key, value, T(0.3), {.key_lengths = lengths}};
  Arena arena;
  kernel::attention_forward<T>({}, arena, in, output, rows);
  kernel::attention_backward<T>({}, arena, in, output, rows, doutput, {dquery, false}, {dkey, false}, {dvalue, false});
  for (const auto* part : {&output, &dquery})
    for (Index i = 0; i < 30; ++i) ASSERT_TRUE(std::isfinite((*part)(0, i / 10, i / 5 % 2, i % 5)));
  for (const auto* part : {&dkey, &dvalue})
    for (Index j = 0; j < 40; ++j)
      for (Index e = 0; e < 10; ++e) {
        const T slope = (*part)(0, j, e / 5, e % 5);
        ASSERT_TRUE(j < 11 ? std::isfinite(slope) : slope == 0) << j << ": " << slope;
      }
}

TYPED_TEST(AttentionKernel, DerivativesNobodyAskedFor) {
  using T = TypeParam;
  const Shape<4> shape{1, 5, 2, 3};
  const Guarded<T, 4> query(shape, {}, 1), key(shape, {}, 2), value(shape, {}, 3), doutput(shape, {}, 4), output(shape);
  Tensor<kernel::AttentionRow<T>, 3> rows(Shape{1, 2, 5});
  const kernel::AttentionInputs<T> in{query, key, value, T(0.3)};
  Arena arena;
  kernel::attention_forward<T>({}, arena, in, output, rows);
  const Guarded<T, 4> all[] = {Guarded<T, 4>(shape), Guarded<T, 4>(shape), Guarded<T, 4>(shape)};
  kernel::attention_backward<T>({}, arena, in, output, rows, doutput, {all[0], false}, {all[1], false},
                                {all[2], false});
  for (int only = 0; only < 3; ++only) {
    const Guarded<T, 4> one(shape);
    const Gradient<T, 4> none, place{one, false};
    kernel::attention_backward<T>({}, arena, in, output, rows, doutput, only == 0 ? place : none,
                                  only == 1 ? place : none, only == 2 ? place : none);
    for (Index i = 0; i < 30; ++i) EXPECT_EQ(one.view().data()[i], all[only].view().data()[i]) << only;
  }
}

// The guarantee: a token computed alone against its past has the same bits as in one long pass.
TYPED_TEST(AttentionKernel, OneAtATimeIsAllAtOnce) {
  using T = TypeParam;
  constexpr Index tokens = 600, heads = 2, width = 20;
  const Shape<4> shape{1, tokens, heads, width};
  const Guarded<T, 4> query(shape, {}, 1), key(shape, {}, 2), value(shape, {}, 3), output(shape);
  Tensor<kernel::AttentionRow<T>, 3> rows(Shape{Index{1}, heads, tokens});
  Arena arena;
  kernel::attention_forward<T>({}, arena, {query, key, value, T(0.3), {.causal = true}}, output, rows);
  for (const Index i : {0, 1, 2, 14, 15, 16, 17, 31, 32, 33, 127, 128, 129, 300, 511, 512, 513, 599})
    for (const Index count : {1, 2, 5}) {
      if (i + 1 < count) continue;
      const Guarded<T, 4> some(Shape{Index{1}, count, heads, width});
      Tensor<kernel::AttentionRow<T>, 3> sums(Shape{Index{1}, heads, count});
      kernel::attention_forward<T>({}, arena,
                                   {query.view().slice(1, i + 1 - count, count),
                                    key.view().slice(1, 0, i + 1),
                                    value.view().slice(1, 0, i + 1),
                                    T(0.3),
                                    {.causal = true}},
                                   some, sums);
      for (Index n = 0; n < count; ++n)
        for (Index h = 0; h < heads; ++h) {
          ASSERT_EQ(sums(0, h, n).largest, rows(0, h, i + 1 - count + n).largest) << i << ' ' << count;
          ASSERT_EQ(sums(0, h, n).factor, rows(0, h, i + 1 - count + n).factor) << i << ' ' << count;
          for (Index e = 0; e < width; ++e)
            ASSERT_EQ(some(0, n, h, e), output(0, i + 1 - count + n, h, e)) << i << ' ' << count;
        }
      arena.reset();
    }
}

// The rest of a batch, and its padding, changes nothing.
TYPED_TEST(AttentionKernel, ASequenceAloneIsTheSequenceInABatch) {
  using T = TypeParam;
  const Shape<4> shape{3, 40, 2, 9}, alone_shape{1, 27, 2, 9};
  const Guarded<T, 4> query(shape, {}, 1), key(shape, {}, 2), value(shape, {}, 3), doutput(shape, {}, 4), output(shape),
      dquery(shape), dkey(shape), dvalue(shape), output1(alone_shape), dquery1(alone_shape), dkey1(alone_shape),
      dvalue1(alone_shape);
  Tensor<kernel::AttentionRow<T>, 3> sums(Shape{3, 2, 40}), sums1(Shape{1, 2, 27});
  const std::vector<Index> lengths{40, 27, 3};
  Arena arena;
  const kernel::AttentionInputs<T> in{
      query, key, value, T(0.3), {.causal = true, .key_lengths = lengths, .query_lengths = lengths}};
  kernel::attention_forward<T>({}, arena, in, output, sums);
  kernel::attention_backward<T>({}, arena, in, output, sums, doutput, {dquery, false}, {dkey, false}, {dvalue, false});
  const auto part = [](const Guarded<T, 4>& x) { return ConstView<T, 4>(x.view().slice(0, 1, 1).slice(1, 0, 27)); };
  const kernel::AttentionInputs<T> in1{part(query), part(key), part(value), T(0.3), {.causal = true}};
  kernel::attention_forward<T>({}, arena, in1, output1, sums1);
  kernel::attention_backward<T>({}, arena, in1, output1, sums1, part(doutput), {dquery1, false}, {dkey1, false},
                                {dvalue1, false});
  for (Index n = 0; n < 27; ++n)
    for (Index h = 0; h < 2; ++h)
      for (Index e = 0; e < 9; ++e) {
        ASSERT_EQ(output1(0, n, h, e), output(1, n, h, e));
        ASSERT_EQ(dquery1(0, n, h, e), dquery(1, n, h, e));
        ASSERT_EQ(dkey1(0, n, h, e), dkey(1, n, h, e));
        ASSERT_EQ(dvalue1(0, n, h, e), dvalue(1, n, h, e));
      }
}
