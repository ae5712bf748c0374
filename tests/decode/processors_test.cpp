// Processors, by hand.
#include "eigenformer/decode/processors.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "support/error.hpp"

namespace eigenformer::test {
namespace {

constexpr double excluded = -std::numeric_limits<double>::infinity();

template <class T>
struct Processors : ::testing::Test {
  /// What a processor makes of logits after a text.
  static std::vector<double> after(auto processor, const std::vector<double>& logits, const std::vector<Id>& text = {},
                                   Index generated = 0) {
    std::vector<T> row(logits.begin(), logits.end());
    processor(DecodeStep{text, generated, 7}, std::span<T>(row));
    return {row.begin(), row.end()};
  }
  /// The same, of probabilities: which tokens are left.
  static std::set<Id> kept(auto processor, const std::vector<double>& probabilities) {
    std::vector<double> logits;
    for (const double p : probabilities) logits.push_back(std::log(p));
    std::set<Id> ids;
    const auto result = after(processor, logits);
    for (std::size_t i = 0; i < result.size(); ++i)
      if (result[i] != excluded) {
        ids.insert(static_cast<Id>(i));
        EXPECT_EQ(result[i], static_cast<double>(static_cast<T>(logits[i]))) << "what is kept stays as it is";
      }
    return ids;
  }
};
using ProcessorScalars = ::testing::Types<float, double>;
TYPED_TEST_SUITE(Processors, ProcessorScalars);

using Ids = std::set<Id>;

TYPED_TEST(Processors, TopPKeepsWhileTheMassBeforeIsLess) {
  const auto kept = [](double p, const std::vector<double>& probabilities) {
    return TestFixture::kept(TopP(p), probabilities);
  };
  EXPECT_EQ(kept(0.9, {0.5, 0.35, 0.1, 0.05}), (Ids{0, 1, 2}));
  EXPECT_EQ(kept(0.8, {0.3, 0.1, 0.1, 0.5}), (Ids{3, 0})) << "0.5 + 0.3 is 0.8, whatever its rounding";
  EXPECT_EQ(kept(0.6, {0.5, 0.3, 0.15, 0.05}), (Ids{0, 1}));
  EXPECT_EQ(kept(0, {0.3, 0.1, 0.1, 0.5}), (Ids{3}));
  EXPECT_EQ(kept(0, {0.25, 0.25, 0.25, 0.25}), (Ids{0}));
  EXPECT_EQ(kept(1, {0.3, 0.1, 0.1, 0.5}), (Ids{0, 1, 2, 3}));
  EXPECT_EQ(kept(1, {1, 1e-30, 0, 1e-30}), (Ids{0, 1, 3}));
  EXPECT_EQ(kept(0.5, {0.25, 0.25, 0.25, 0.25}), (Ids{0, 1})) << "of equals the lowest ids";
  EXPECT_EQ(kept(0.5, std::vector<double>(1000, 1.0 / 1000)).size(), 500u)
      << "a nucleus larger than is looked at first";
  EXPECT_EQ(kept(0.999999, std::vector<double>(100, 0.01)).size(), 100u);
}

TYPED_TEST(Processors, TopK) {
  const std::vector<double> p{0.1, 0.4, 0.1, 0.3, 0.1};
  EXPECT_EQ(TestFixture::kept(TopK(1), p), (Ids{1}));
  EXPECT_EQ(TestFixture::kept(TopK(2), p), (Ids{1, 3}));
  EXPECT_EQ(TestFixture::kept(TopK(4), p), (Ids{0, 1, 2, 3})) << "of equals the lowest ids";
  for (const Index all : {0, 5, 10}) EXPECT_EQ(TestFixture::kept(TopK(all), p).size(), 5u);
}

TYPED_TEST(Processors, MinP) {
  const std::vector<double> p{0.5, 0.25, 0.125, 0.0625};
  EXPECT_EQ(TestFixture::kept(MinP(0), p).size(), 4u);
  EXPECT_EQ(TestFixture::kept(MinP(0.25), p), (Ids{0, 1, 2})) << "a quarter of a half is an eighth";
  EXPECT_EQ(TestFixture::kept(MinP(0.26), p), (Ids{0, 1}));
  EXPECT_EQ(TestFixture::kept(MinP(0.5), p), (Ids{0, 1}));
  EXPECT_EQ(TestFixture::kept(MinP(1), p), (Ids{0}));
  EXPECT_EQ(TestFixture::kept(MinP(0.7), {0.5, 0.35, 0.15}), (Ids{0, 1}))
      << "0.7 of 0.5 is 0.35, whatever its rounding";
}

TYPED_TEST(Processors, Temperature) {
  const auto half = TestFixture::after(Temperature(0.5), {1, -1, excluded, 2});
  EXPECT_EQ(half[3] - half[0], 2);
  EXPECT_EQ(half[0] - half[1], 4);
  EXPECT_EQ(half[2], excluded);
  const auto as_it_is = TestFixture::after(Temperature(1), {1, -1, 2});
  EXPECT_EQ(as_it_is, (std::vector<double>{1, -1, 2}));
  const auto zero = TestFixture::after(Temperature(0), {1, 2, 2, -3});
  EXPECT_EQ(zero, (std::vector<double>{excluded, 2, excluded, excluded})) << "ties to the lowest id";
  for (const double tiny : {1e-30, 1e-44, 1e-310})
    for (const double x : TestFixture::after(Temperature(tiny), {100, 200, 150}))
      EXPECT_TRUE(x < HUGE_VAL) << tiny << ": neither infinite nor NaN";
}

TYPED_TEST(Processors, RepetitionPenalty) {
  // 0 occurs twice and is penalised once; 1 is negative; 2 does not occur; 3 is zero; 9 is beyond the vocabulary.
  EXPECT_EQ(TestFixture::after(RepetitionPenalty(2), {4, -4, 5, 0, excluded}, {0, 1, 0, 3, 4, 9}),
            (std::vector<double>{2, -8, 5, 0, excluded}));
  EXPECT_EQ(TestFixture::after(RepetitionPenalty(0.5), {4, -4}, {0, 1}), (std::vector<double>{8, -2}));
  RepetitionPenalty again(2);  // its notes are of one call
  for (const Id token : {0, 1, 0}) {
    std::vector<TypeParam> row{4, 4};
    again(DecodeStep{std::span(&token, 1)}, std::span<TypeParam>(row));
    EXPECT_EQ(row[static_cast<std::size_t>(token)], 2);
    EXPECT_EQ(row[static_cast<std::size_t>(1 - token)], 4);
  }
}

TYPED_TEST(Processors, NoRepeat) {
  const std::vector<double> row{0, 1, 2, 3};
  // After 1 2 3 1 2: 3 would repeat 1 2 3; of pairs, 2 3; of single tokens, all of 1 2 3.
  const std::vector<Id> text{1, 2, 3, 1, 2};
  EXPECT_EQ(TestFixture::after(NoRepeat(3), row, text), (std::vector<double>{0, 1, 2, excluded}));
  EXPECT_EQ(TestFixture::after(NoRepeat(2), row, text), (std::vector<double>{0, 1, 2, excluded}));
  EXPECT_EQ(TestFixture::after(NoRepeat(1), row, text), (std::vector<double>{0, excluded, excluded, excluded}));
  EXPECT_EQ(TestFixture::after(NoRepeat(4), row, text), row);
  EXPECT_EQ(TestFixture::after(NoRepeat(0), row, text), row);
  EXPECT_EQ(TestFixture::after(NoRepeat(3), row, {2, 2}), row) << "too short";
  EXPECT_EQ(TestFixture::after(NoRepeat(2), row, {2, 2}), (std::vector<double>{0, 1, excluded, 3}))
      << "a pair that overlaps itself";
}

TYPED_TEST(Processors, SuppressAndMinLength) {
  const std::vector<double> row{0, 1, 2};
  EXPECT_EQ(TestFixture::after(Suppress{{0, 2}}, row), (std::vector<double>{excluded, 1, excluded}));
  EXPECT_EQ(TestFixture::after(MinLength{2, {1, 2}}, row, {0, 0}, 1), (std::vector<double>{0, excluded, excluded}));
  EXPECT_EQ(TestFixture::after(MinLength{2, {1, 2}}, row, {0, 0}, 2), row);
}

TYPED_TEST(Processors, OfNothingLeftIsAnError) {
  const std::vector<double> nothing(5, excluded);
  const std::string message = "[decode] sequence 7, step 3: every token is excluded";
  EXPECT_EQ(error_of([&] { TestFixture::after(TopP(0.5), nothing, {}, 3); }), message);
  EXPECT_EQ(error_of([&] { TestFixture::after(TopK(2), nothing, {}, 3); }), message);
  EXPECT_EQ(error_of([&] { TestFixture::after(MinP(0.5), nothing, {}, 3); }), message);
  EXPECT_EQ(error_of([&] { TestFixture::after(Temperature(0), nothing, {}, 3); }), message);
}

TEST(Processor, TakesWhatItsFunctionTakes) {
  std::vector<float> floats{1, 2};
  std::vector<double> doubles{1, 2};
  const Processor generic([](const DecodeStep&, auto logits) { logits[0] = 5; }),
      narrow([](const DecodeStep&, std::span<float> logits) { logits[1] = 6; });
  generic(DecodeStep{}, std::span<float>(floats));
  generic(DecodeStep{}, std::span<double>(doubles));
  narrow(DecodeStep{}, std::span<float>(floats));
  EXPECT_EQ(floats, (std::vector<float>{5, 6}));
  EXPECT_EQ(doubles, (std::vector<double>{5, 2}));
  EXPECT_EQ(error_of([&] { narrow(DecodeStep{}, std::span<double>(doubles)); }),
            "[decode] a processor does not take logits of the model's type");
  const Processor top(TopK(1));
  top(DecodeStep{}, std::span<double>(doubles));
  EXPECT_EQ(doubles, (std::vector<double>{5, excluded}));
}

TEST(Processor, SettingsThatMakeNoSense) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double p : {-0.1, 1.1, nan}) {
    EXPECT_THROW(TopP{p}, Error) << p;
    EXPECT_THROW(MinP{p}, Error) << p;
  }
  for (const double t : {-1.0, HUGE_VAL, nan}) EXPECT_THROW(Temperature{t}, Error) << t;
  for (const double penalty : {-1.0, 0.0, HUGE_VAL, nan}) EXPECT_THROW(RepetitionPenalty{penalty}, Error) << penalty;
  EXPECT_THROW(TopK{-1}, Error);
  EXPECT_THROW(NoRepeat{-1}, Error);
  EXPECT_EQ(error_of([] { TopP(1.5); }), "[decode] top_p 1.5 is invalid: must be in [0, 1.0000000000000002)");
}

}  // namespace
// Settings beyond the range of float leave numbers, and excluded tokens excluded.
TEST(Processors, ExtremeSettings) {
  const std::vector<Id> text{0};
  const DecodeStep at{text, 0, 0};
  std::vector<float> logits{1, -std::numeric_limits<float>::infinity(), 2};
  Temperature(1e39)(at, std::span<float>(logits));
  EXPECT_TRUE(std::isfinite(logits[0]) && std::isfinite(logits[2]));
  EXPECT_TRUE(std::isinf(logits[1]) && logits[1] < 0);
  logits = {1, 2};
  RepetitionPenalty(1e-300)(at, std::span<float>(logits));
  EXPECT_EQ(logits, (std::vector<float>{std::numeric_limits<float>::max(), 2}));
}

}  // namespace eigenformer::test
