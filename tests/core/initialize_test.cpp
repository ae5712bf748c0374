#include "eigenformer/core/initialize.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

using namespace eigenformer;

namespace {

struct Model {
  Tensor<float, 2> xavier{Shape{200, 100}}, again{Shape{200, 100}}, embedding{Shape{1000, 64}};
  Tensor<float, 1> ones{Shape{50}}, zeros{Shape{50}};

  static void visit(auto&& f, auto&... m) {
    f(Leaf{"xavier", Init::xavier}, m.xavier...);
    f(Leaf{"again", Init::xavier}, m.again...);
    f(Leaf{"embedding", Init::embedding}, m.embedding...);
    f(Leaf{"ones", Init::ones}, m.ones...);
    f(Leaf{"zeros", Init::zeros}, m.zeros...);
  }
};

Model initialized(std::uint64_t seed) {
  Model model;
  std::fill_n(model.zeros.data(), 50, 9.0f);
  initialize(model, seed);
  return model;
}

bool same_bits(const auto& a, const auto& b) {
  return a.shape() == b.shape() &&
         std::memcmp(a.data(), b.data(), static_cast<std::size_t>(a.size()) * sizeof(*a.data())) == 0;
}

struct Moments {
  double mean = 0, variance = 0, largest = 0;
};

Moments moments(const Tensor<float, 2>& x) {
  Moments result;
  const auto count = static_cast<double>(x.size());
  for (Index i = 0; i < x.size(); ++i) {
    const double value = static_cast<double>(x.data()[i]);
    result.mean += value / count;
    result.variance += value * value / count;
    result.largest = std::max(result.largest, std::abs(value));
  }
  return result;
}

}  // namespace

TEST(Initialize, SameSeedSameBits) {
  const Model a = initialized(1), b = initialized(1), other = initialized(2);
  EXPECT_TRUE(same_bits(a.xavier, b.xavier));
  EXPECT_TRUE(same_bits(a.embedding, b.embedding));
  EXPECT_FALSE(same_bits(a.xavier, other.xavier));
  EXPECT_FALSE(same_bits(a.xavier, a.again)) << "every tensor has its own numbers";
}

TEST(Initialize, OnesAndZeros) {
  const Model model = initialized(1);
  for (Index i = 0; i < 50; ++i) {
    EXPECT_EQ(model.ones(i), 1);
    EXPECT_EQ(model.zeros(i), 0);
  }
}

// Uniform in ±b, b = √(6/(In + Out)) = √0.02: variance b²/3.
TEST(Initialize, XavierFillsItsBound) {
  const Moments x = moments(initialized(3).xavier);
  const double bound = std::sqrt(6.0 / 300), count = 20000;
  EXPECT_LE(x.largest, bound * (1 + 1e-7));
  EXPECT_GT(x.largest, bound * 0.999);
  EXPECT_NEAR(x.mean, 0, 5 * bound / std::sqrt(3 * count));
  EXPECT_NEAR(x.variance, bound * bound / 3, 5 * bound * bound * std::sqrt(4.0 / 45 / count));
}

// Standard deviation 1/√64, so that rows scaled by √D have unit variance.
TEST(Initialize, EmbeddingDeviation) {
  const Moments x = moments(initialized(4).embedding);
  const double count = 64000;
  EXPECT_NEAR(x.mean * 8, 0, 5 / std::sqrt(count));
  EXPECT_NEAR(x.variance * 64, 1, 5 * std::sqrt(2 / count));
  EXPECT_GT(x.largest * 8, 3.5) << "normal numbers have tails";
}

// What initialize() leaves at zero may be zero; one number elsewhere is enough.
TEST(RequireInitialized, LooksForOneValue) {
  const auto refused = [](const auto& model) {
    try {
      require_initialized(model, "place");
    } catch (const Error& error) {
      return std::string(error.what()) ==
             "[place] all weights are zero: call initialize(model, seed), or load them, before the model is used";
    }
    return false;
  };
  Model model;
  EXPECT_TRUE(refused(model));
  model.zeros(3) = 1;
  EXPECT_TRUE(refused(model)) << "a bias alone is no model";
  model.ones(49) = -1e-30f;
  EXPECT_FALSE(refused(model));
  EXPECT_FALSE(refused(initialized(1)));
  model = Model();
  model.xavier(0, 0) = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(refused(model));
}

namespace {

struct Biases {
  Tensor<float, 1> bias{Shape{3}}, none;
  static void visit(auto&& f, auto&... m) {
    f(Leaf{"bias", Init::zeros}, m.bias...);
    f(Leaf{"none", Init::xavier}, m.none...);
  }
};

struct WithoutValues {
  Tensor<NoValue, 1> weight{Shape{3}};
  static void visit(auto&& f, auto&... m) { f(Leaf{"weight", Init::xavier}, m.weight...); }
};

}  // namespace

TEST(RequireInitialized, NothingToInitialize) {
  EXPECT_NO_THROW(require_initialized(Biases(), "place"));
  EXPECT_NO_THROW(require_initialized(WithoutValues(), "place"));
}
