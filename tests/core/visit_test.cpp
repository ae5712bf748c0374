#include "eigenformer/core/visit.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "support/error.hpp"

using namespace eigenformer;
using test::error_of;

namespace {

struct Part {
  Tensor<float, 2> weight;
  Tensor<float, 1> bias;

  explicit Part(Index size, bool with_bias = true) : weight(Shape{size, size}) {
    if (with_bias) bias = Tensor<float, 1>(Shape{size});
  }
  static void visit(auto&& f, auto&... m) {
    f(Leaf{"weight", Init::xavier, Decay::yes}, m.weight...);
    f(Leaf{"bias"}, m.bias...);
  }
};

struct Other {
  Tensor<double, 1> scale{Shape{2}};
  static void visit(auto&& f, auto&... m) { f(Leaf{"scale", Init::ones}, m.scale...); }
};

struct Whole {
  Part first{3};
  std::vector<Part> items{Part(1), Part(2, false)};
  std::optional<Part> extra;
  std::variant<Part, Other> choice{Other()};

  static void visit(auto&& f, auto&... m) {
    f("first", m.first...);
    f("items", m.items...);
    f("extra", m.extra...);
    f("choice", m.choice...);
  }
};

using Paths = std::vector<std::string>;

Paths paths(const Whole& whole) {
  Paths result;
  walk([&](const std::string& path, const Leaf&, const auto&) { result.push_back(path); }, whole);
  return result;
}

std::string walk_error(Whole& a, Whole& b) {
  return error_of([&] { walk([](const std::string&, const Leaf&, auto&, auto&) {}, a, b); });
}

}  // namespace

TEST(Walk, EndsWhereItIsTold) {
  const Whole whole;
  Paths seen;
  walk(
      [&](const std::string& path, const Leaf&, const auto&) {
        seen.push_back(path);
        return path == "items.0.weight";
      },
      whole);
  EXPECT_EQ(seen, (Paths{"first.weight", "first.bias", "items.0.weight"}));
}

TEST(Walk, NamesEveryTensorThatIsThere) {
  Whole whole;
  EXPECT_EQ(paths(whole),
            (Paths{"first.weight", "first.bias", "items.0.weight", "items.0.bias", "items.1.weight", "choice.scale"}));
  whole.extra.emplace(1);
  whole.choice.emplace<Part>(1, false);
  EXPECT_EQ(paths(whole), (Paths{"first.weight", "first.bias", "items.0.weight", "items.0.bias", "items.1.weight",
                                 "extra.weight", "extra.bias", "choice.weight"}));
}

TEST(Walk, HandsOverTheLeaf) {
  Whole whole;
  std::vector<std::pair<Init, Decay>> leaves;
  walk([&](const std::string&, const Leaf& leaf, const auto&) { leaves.emplace_back(leaf.init, leaf.decay); },
       whole.first);
  EXPECT_EQ(leaves, (std::vector<std::pair<Init, Decay>>{{Init::xavier, Decay::yes}, {Init::zeros, Decay::no}}));
}

TEST(Walk, SeveralModelsInLockstep) {
  Whole a, b;
  const Whole c;
  set_zero(a);
  a.items[1].weight(1, 0) = 5;
  walk([](const std::string&, const Leaf&, auto& to, const auto& from, const auto&) { to = from; }, b, std::as_const(a),
       c);
  EXPECT_EQ(b.items[1].weight(1, 0), 5);
  EXPECT_NE(b.items[1].weight.data(), a.items[1].weight.data());
}

TEST(Walk, RefusesModelsOfDifferentStructure) {
  Whole a;
  {
    Whole b;
    b.items[1] = Part(5, false);
    EXPECT_EQ(walk_error(a, b), "[items.1.weight] the models differ in shape: (2, 2) and others");
  }
  {
    Whole b;
    b.items.pop_back();
    EXPECT_EQ(walk_error(a, b), "[items] the models differ in their number of items");
  }
  {
    Whole b;
    b.extra.emplace(1);
    EXPECT_EQ(walk_error(a, b), "[extra] only some of the models have this part");
    EXPECT_EQ(walk_error(b, a), "[extra] only some of the models have this part");
  }
  {
    Whole b;
    b.choice.emplace<Part>(1);
    EXPECT_EQ(walk_error(a, b), "[choice] the models differ in the kind of this part");
  }
  {
    Whole b;
    b.first.bias = {};
    EXPECT_EQ(walk_error(a, b), "[first.bias] the models differ in shape: (3) and others");
    EXPECT_EQ(walk_error(b, a), "[first.bias] the models differ in shape: (0) and others");
    a.first.bias = Tensor<float, 1>(Shape{0});
    EXPECT_EQ(walk_error(a, b), "[first.bias] only some of the models have this tensor") << "empty is not absent";
    EXPECT_EQ(walk_error(b, a), "[first.bias] only some of the models have this tensor");
  }
}

TEST(Walk, CountsAndZeros) {
  Whole whole;
  EXPECT_EQ(parameter_count(whole), 9 + 3 + 1 + 1 + 4 + 2);
  whole.first.weight(2, 2) = 5;
  const Whole zeros = zeros_like(whole);
  EXPECT_EQ(zeros.first.weight(2, 2), 0);
  EXPECT_EQ(zeros.first.weight.shape(), whole.first.weight.shape());
  EXPECT_EQ(whole.first.weight(2, 2), 5);
  set_zero(whole);
  EXPECT_EQ(whole.first.weight(2, 2), 0);
}
