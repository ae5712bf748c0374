// What a mask hides may be anything: NaN and ∞ in tokens, gradients and biases that a query must not see change not a
// bit of what it gives, and those that see a NaN are NaN. Random shapes, masks and scores; which are which says the
// oracle.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "eigenformer/kernel/attention.hpp"
#include "support/oracle.hpp"
#include "support/tensors.hpp"

using namespace eigenformer;
using namespace eigenformer::test;

namespace {

enum class HiddenScore { plain, alibi, capped, by_distance, by_bias, by_product };

/// All elements of each result by its name.
struct HiddenResults {
  std::vector<std::pair<std::string, std::vector<double>>> list;
  void add(const std::string& name, const auto& x) {
    list.emplace_back(name, std::vector<double>(x.data(), x.data() + x.size()));
  }
};

/// The same bits, or NaN both.
bool alike(double a, double b) { return a == b ? std::signbit(a) == std::signbit(b) : std::isnan(a) && std::isnan(b); }

template <class T>
class HiddenProblem {
 public:
  HiddenScore kind;

  HiddenProblem(HiddenScore score, std::uint64_t seed) : kind(score), random_(seed) {
    const Index widths[] = {1, 5, 16, 19};
    batch = 1 + below(2), kv_heads = 1 + below(2), group = 1 + below(2), width = widths[below(4)];
    const Index size = below(6);  // beyond a block of queries, or of keys, or fewer keys than queries, or neither
    queries = 1 + below(size == 0 ? 110 : size == 1 ? 9 : 30);
    keys = size == 1 ? 400 + below(700) : size == 2 ? 1 + below(queries) : queries + below(30);
    heads = kv_heads * group;
    query = numbers(Shape{batch, queries, heads, width}), doutput = numbers(query.shape());
    key = numbers(Shape{batch, keys, kv_heads, width}), value = numbers(key.shape());
    draw_mask();
    if (below(3) == 0) dropout = {RandomSite(stream_), 0.4};
    slopes_ = numbers(Shape{heads});
    before_ = kind == HiddenScore::by_product ? keys - 1 : below(7);
    const Index distances = kind == HiddenScore::by_product ? keys + queries - 1 : before_ + 1 + below(9);
    const Index b = one_or(batch), h = one_or(heads), n = one_or(queries);
    bias = numbers(Shape{b, h, n, kind == HiddenScore::by_bias ? keys : distances});
    product_query = numbers(query.shape()), product_key = numbers(Shape{heads, width, distances});
    summed_ = below(2) == 0;
    sum_slopes = numbers(Shape{batch, heads, queries, distances});
  }

  /// Some elements of what attention reads, in every tensor alike likely: one, or those of a token.
  std::vector<T*> places() {
    std::vector<T*> all;
    const auto some = [&](auto& x, Index row) {
      for (Index left = below(4); left > 0 && x.size() > 0; --left) {
        const Index first = below(x.size() / row) * row, one = below(row);
        if (below(2) == 0) all.push_back(x.data() + first + one);
        else
          for (Index e = 0; e < row; ++e) all.push_back(x.data() + first + e);
      }
    };
    some(query, heads * width), some(key, kv_heads * width), some(value, kv_heads * width),
        some(doutput, heads * width);
    some(bias, 1), some(product_query, width), some(product_key, 1), some(sum_slopes, 1);
    return all;
  }

  bool sees(Index b, Index h, Index i, Index j) const {
    const Index key_count = key_lengths.empty() ? keys : key_lengths[at(b)],
                query_count = query_lengths.empty() ? queries : query_lengths[at(b)];
    const Index distance = j - (i + key_count - query_count);
    const auto in = [](Index extent, Index given) { return extent == 1 ? Index{0} : given; };
    return i < query_count && j < key_count &&
           (!causal || distance <= 0 || (!prefixes.empty() && j < prefixes[at(b)])) &&
           (window == 0 || std::abs(distance) < window) &&
           (allowed.size() == 0 || allowed(in(allowed.extent(0), b), in(allowed.extent(1), h), in(allowed.extent(2), i),
                                           in(allowed.extent(3), j)));
  }

  HiddenResults expected() const {
    Tensor<double, 4> factors(Shape{batch, heads, queries, keys}), ones(factors.shape());
    std::fill_n(factors.data(), factors.size(), 1.0), std::fill_n(ones.data(), ones.size(), 1.0);
    if (dropout)
      kernel::dropout_forward<double>({}, std::as_const(ones).view().flat(), {}, dropout, factors.view().flat());
    Tensor<double, 4> bias_slopes(bias.shape()), query_slopes(query.shape()), sums(sum_slopes.shape());
    Tensor<double, 3> key_slopes(product_key.shape());
    const auto own = [&](Index b, Index i) {
      return i + (key_lengths.empty() ? keys : key_lengths[at(b)]) -
             (query_lengths.empty() ? queries : query_lengths[at(b)]);
    };
    const auto column = [&](Index b, Index i, Index j) {
      return std::clamp(j - own(b, i) + before_, Index{0}, sum_slopes.extent(3) - 1);
    };
    const auto bias_at = [&](auto& of, Index b, Index h, Index i, Index j) -> auto& {
      return of(of.extent(0) == 1 ? 0 : b, of.extent(1) == 1 ? 0 : h, of.extent(2) == 1 ? 0 : i,
                kind == HiddenScore::by_bias ? j : column(b, i, j));
    };
    oracle::Attention want{wide(query), wide(key), wide(value), static_cast<double>(scale)};
    want.sees = [&](Index b, Index h, Index i, Index j) { return sees(b, h, i, j); };
    want.factor = [&](Index b, Index h, Index i, Index j) { return factors(b, h, i, j); };
    want.bend = [&](Index b, Index h, Index i, Index j, double s) -> double {
      switch (kind) {
        case HiddenScore::plain: return s;
        case HiddenScore::alibi: return s - double{slopes_(h)} * static_cast<double>(std::abs(own(b, i) - j));
        case HiddenScore::capped: return 2 * std::tanh(s / 2);
        case HiddenScore::by_distance:
        case HiddenScore::by_bias: return s + double{bias_at(bias, b, h, i, j)};
        default: break;
      }
      for (Index e = 0; e < width && sees(b, h, i, j); ++e)
        s += double{scale} * double{product_query(b, i, h, e)} * double{product_key(h, e, column(b, i, j))};
      return s;
    };
    if (kind == HiddenScore::capped)
      want.bend_slope = [](Index, Index, Index, Index, double s) { return 1 - std::tanh(s / 2) * std::tanh(s / 2); };
    want.collect = [&](Index b, Index h, Index i, Index j, double slope) {
      if (kind == HiddenScore::by_distance || kind == HiddenScore::by_bias) bias_at(bias_slopes, b, h, i, j) += slope;
      for (Index e = 0; e < width && kind == HiddenScore::by_product; ++e) {
        query_slopes(b, i, h, e) += double{scale} * slope * double{product_key(h, e, column(b, i, j))};
        key_slopes(h, e, column(b, i, j)) += double{scale} * slope * double{product_query(b, i, h, e)};
      }
    };
    if (summed_)
      want.weight_slope = [&](Index b, Index h, Index i, Index j) {
        return double{sum_slopes(b, h, i, column(b, i, j))};
      };
    const auto forward = want.forward();
    const auto backward = want.backward(wide(doutput));
    for (Index b = 0; b < batch && summed_; ++b)
      for (Index h = 0; h < heads; ++h)
        for (Index i = 0; i < queries; ++i)
          for (Index j = 0; j < keys; ++j)
            if (sees(b, h, i, j) && factors(b, h, i, j) != 0)
              sums(b, h, i, column(b, i, j)) += forward.weights(b, h, i, j) * factors(b, h, i, j);
    HiddenResults all;
    all.add("output", forward.output.values), all.add("dquery", backward.query.values),
        all.add("dkey", backward.key.values), all.add("dvalue", backward.value.values);
    all.add("dbias", bias_slopes), all.add("d(product query)", query_slopes), all.add("d(product key)", key_slopes),
        all.add("sums", sums);
    return all;
  }

  HiddenResults computed(const Threads& threads) const {
    HiddenResults all;
    with_score([&](const auto& score, const auto& learned) {
      Tensor<T, 4> output(query.shape()), dquery(query.shape()), dkey(key.shape()), dvalue(key.shape()),
          sums(sum_slopes.shape());
      Tensor<T, 4> bias_slopes(bias.shape()), query_slopes(query.shape());
      Tensor<T, 3> key_slopes(product_key.shape());
      Tensor<kernel::AttentionRow<T>, 3> rows(Shape{batch, heads, queries});
      Arena arena;
      const kernel::AttentionInputs<T> in{query, key, value, scale, mask(), dropout};
      const auto run = [&](const auto& forward, const auto& backward) {
        kernel::attention_forward<T>(threads, arena, in, output, rows, forward);
        kernel::attention_backward<T>(threads, arena, in, output, rows, doutput, {dquery, false}, {dkey, false},
                                      {dvalue, false}, backward);
      };
      const auto learns = learned(bias_slopes.view(), query_slopes.view(), key_slopes.view());
      const auto summing = [&](const auto& inner) {
        return kernel::DistanceSums<T, std::remove_cvref_t<decltype(inner)>>{inner, sums, sum_slopes, before_};
      };
      if (summed_) run(summing(score), summing(learns));
      else run(score, learns);
      all.add("output", output), all.add("dquery", dquery), all.add("dkey", dkey), all.add("dvalue", dvalue);
      all.add("dbias", bias_slopes), all.add("d(product query)", query_slopes), all.add("d(product key)", key_slopes),
          all.add("sums", sums);
    });
    return all;
  }

  bool cacheable() const {
    return !dropout && key_lengths.empty() && query_lengths.empty() && prefixes.empty() && allowed.size() == 0 &&
           keys >= queries && (kind != HiddenScore::by_distance || (bias.extent(0) == 1 && bias.extent(2) == 1)) &&
           kind != HiddenScore::by_bias && kind != HiddenScore::by_product;
  }

  /// Sequence b from a cache, in steps of some queries if the mask is causal.
  std::vector<double> cached(Index b) {
    std::vector<std::vector<T>> memory;
    std::vector<kernel::KvBlock<T>> blocks;
    for (Index first = 0; first < keys; first += kernel::key_block<T>) {
      const Index tokens = (std::min)(keys - first, kernel::key_block<T>);
      kernel::KvBlock<T> block{nullptr, kernel::KvBlock<T>::fitting(tokens, kernel::key_block<T>), kv_heads, width};
      block.data =
          memory.emplace_back(static_cast<std::size_t>(block.size()), std::numeric_limits<T>::quiet_NaN()).data();
      for (Index h = 0; h < kv_heads; ++h)
        block.put(h, 0, kernel::detail::head(std::as_const(key).view(), b, h).slice(0, first, tokens),
                  kernel::detail::head(std::as_const(value).view(), b, h).slice(0, first, tokens), scale);
      blocks.push_back(block);
    }
    std::vector<double> outputs;
    with_score([&](const auto& score, const auto&) {
      Arena arena;
      for (Index first = 0; first < queries;) {
        const Index count = causal ? 1 + below((std::min)(queries - first, Index{9})) : queries;
        const typename kernel::CachedAttentionInputs<T>::Sequence sequence[] = {
            {0, count, keys - queries + first + count, blocks.data()}};
        Tensor<T, 4> output(Shape{Index{1}, count, heads, width});
        const kernel::CachedAttentionInputs<T> in{std::as_const(query).view().slice(0, b, 1).slice(1, first, count),
                                                  {sequence, Shape<1>{1}},
                                                  kv_heads,
                                                  causal,
                                                  window};
        kernel::cached_attention_forward<T>({}, arena, in, output, score);
        outputs.insert(outputs.end(), output.data(), output.data() + output.size());
        first += count;
      }
    });
    return outputs;
  }

  Index batch, kv_heads, group, heads, queries, keys, width;
  T scale = T(0.4);
  bool causal = false;
  Index window = 0;
  std::vector<Index> key_lengths, query_lengths, prefixes;
  Tensor<bool, 4> allowed{Shape{0, 0, 0, 0}};
  kernel::Dropout dropout;
  Tensor<T, 4> query, key, value, doutput, bias, product_query, sum_slopes;
  Tensor<T, 3> product_key;

 private:
  static std::size_t at(Index i) { return static_cast<std::size_t>(i); }
  Index below(Index limit) { return static_cast<Index>(random_.below(limit)); }
  Index one_or(Index extent) { return below(2) == 0 ? 1 : extent; }
  template <int Rank>
  Tensor<T, Rank> numbers(Shape<Rank> shape) {
    Tensor<T, Rank> x(shape);
    std::generate_n(x.data(), x.size(), [&] { return static_cast<T>(random_.normal()); });
    return x;
  }
  template <int Rank>
  static Tensor<double, Rank> wide(const Tensor<T, Rank>& x) {
    Tensor<double, Rank> y(x.shape());
    std::copy_n(x.data(), x.size(), y.data());
    return y;
  }

  void draw_mask() {
    causal = below(2) == 0;
    const auto lengths = [&](std::vector<Index>& to, Index limit) {
      for (Index b = 0; b < batch; ++b) to.push_back(below(limit + 1));
    };
    if (below(3) == 0) window = below(5) == 0 ? std::numeric_limits<Index>::max() : 1 + below(40);
    else if (causal && below(3) == 0) lengths(prefixes, keys);
    if (below(3) == 0) lengths(key_lengths, keys);
    if (below(3) == 0) lengths(query_lengths, queries);
    if (below(3) != 0) return;
    const Index b = one_or(batch), h = one_or(heads), n = one_or(queries), m = one_or(keys);
    allowed = Tensor<bool, 4>(Shape{b, h, n, m});
    std::generate_n(allowed.data(), allowed.size(), [&] { return below(3) != 0; });
  }
  Mask mask() const {
    const auto list = [](const std::vector<Index>& x) {
      return x.empty() ? ConstView<Index, 1>() : ConstView<Index, 1>(x);
    };
    return {.causal = causal,
            .window = window,
            .key_lengths = list(key_lengths),
            .query_lengths = list(query_lengths),
            .prefixes = list(prefixes),
            .allowed = allowed.size() > 0 ? Allowed(allowed) : Allowed()};
  }

  /// f(score, learned): the latter makes the same score with places for the gradients of what it learns.
  template <class F>
  void with_score(F&& f) const {
    const auto fixed = [&](const auto& score) { f(score, [&](auto&&...) { return score; }); };
    switch (kind) {
      case HiddenScore::plain: return fixed(kernel::PlainScore{});
      case HiddenScore::alibi: return fixed(kernel::AlibiScore<T>{slopes_});
      case HiddenScore::capped: return fixed(kernel::CappedScore<T>{2});
      case HiddenScore::by_distance:
        return f(kernel::DistanceScore<T>{bias, before_}, [&](auto slopes, auto&&...) {
          return kernel::DistanceScore<T>{bias, before_, {slopes, true}};
        });
      case HiddenScore::by_bias:
        return f(kernel::BiasScore<T>{bias}, [&](auto slopes, auto&&...) {
          return kernel::BiasScore<T>{bias, {slopes, true}};
        });
      case HiddenScore::by_product: break;
    }
    using Product = kernel::RelativeProductScore<T, kernel::key_block<T>>;
    f(Product{product_query, product_key, before_, scale}, [&](auto&&, auto query_slopes, auto key_slopes) {
      return Product{product_query, product_key, before_, scale, {query_slopes, true}, {key_slopes, true}};
    });
  }

  RandomSequence random_;
  Random stream_{.seed = 5};
  Tensor<T, 1> slopes_;
  Index before_;
  bool summed_;
};

}  // namespace

template <class T>
struct HiddenKernel : ::testing::Test {};
using HiddenScalars = ::testing::Types<float, double>;
TYPED_TEST_SUITE(HiddenKernel, HiddenScalars);

TYPED_TEST(HiddenKernel, ChangesNoBitOfWhatDoesNotSeeIt) {
  using T = TypeParam;
  const Threads three(3);
  std::vector<Index> hidden(8), seen(8);
  for (const auto kind : {HiddenScore::plain, HiddenScore::alibi, HiddenScore::capped, HiddenScore::by_distance,
                          HiddenScore::by_bias, HiddenScore::by_product})
    for (std::uint64_t seed = 0; seed < 12; ++seed) {
      SCOPED_TRACE("score " + std::to_string(static_cast<int>(kind)) + ", seed " + std::to_string(seed));
      HiddenProblem<T> problem(kind, 1000 * static_cast<std::uint64_t>(kind) + seed);
      const HiddenResults clean = problem.computed({});
      const auto places = problem.places();
      const auto plant = [&](auto&& what) {
        for (T* const place : places) *place = what();
      };
      plant([] { return std::numeric_limits<T>::quiet_NaN(); });
      const HiddenResults want = problem.expected(), got = problem.computed({}), threaded = problem.computed(three);
      plant([sign = T{1}]() mutable { return (sign = -sign) * std::numeric_limits<T>::infinity(); });
      const HiddenResults infinite = problem.computed({});
      for (std::size_t r = 0; r < want.list.size(); ++r) {
        const auto& [name, values] = want.list[r];
        for (std::size_t i = 0; i < values.size(); ++i) {
          const double here = got.list[r].second[i], before = clean.list[r].second[i];
          // A row of sums that sees a NaN is NaN as a whole.
          const bool poisoned = std::isnan(values[i]) ||
                                (name == "sums" && std::isnan(here) &&
                                 std::any_of(values.begin(), values.end(), [](double x) { return std::isnan(x); }));
          ++(poisoned ? seen : hidden)[r];
          ASSERT_TRUE(poisoned ? std::isnan(here) : alike(here, before))
              << name << ' ' << i << ": " << here << " instead of " << (poisoned ? NAN : before);
          ASSERT_TRUE(alike(here, threaded.list[r].second[i])) << name << ' ' << i << " by three threads";
          ASSERT_TRUE(poisoned || alike(infinite.list[r].second[i], before))
              << name << ' ' << i << ": " << infinite.list[r].second[i] << " beside infinities, " << before
              << " without";
        }
      }
      plant([] { return std::numeric_limits<T>::quiet_NaN(); });
      const Index size = problem.queries * problem.heads * problem.width;
      for (Index b = 0; b < problem.batch && problem.cacheable(); ++b) {
        const auto steps = problem.cached(b);
        for (Index i = 0; i < size; ++i)
          ASSERT_TRUE(
              alike(steps[static_cast<std::size_t>(i)], got.list[0].second[static_cast<std::size_t>(b * size + i)]))
              << "from a cache, " << i << " of sequence " << b;
      }
    }
  for (std::size_t r = 0; r < hidden.size(); ++r)
    EXPECT_TRUE(hidden[r] > 1000 && seen[r] > 100) << r << ": " << hidden[r] << ' ' << seen[r];
}
