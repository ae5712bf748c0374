// The measures of examples/quantize, beside score() and sums by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <vector>

#include "../../examples/quantize/options.hpp"
#include "../../examples/quantize/quality.hpp"
#include "eigenformer/core/initialize.hpp"
#include "eigenformer/decode/score.hpp"
#include "eigenformer/model/decoders.hpp"

namespace quantizing::test {
namespace {

using namespace eigenformer;

TEST(Quantize, WindowsHoldEveryTokenOnce) {
  const std::vector<Id> ids{5, 6, 7, 8, 9};
  using Windows = std::vector<std::vector<Id>>;
  EXPECT_EQ(windows_of(ids, {}, 3), (Windows{{5, 6, 7}, {8, 9}}));
  EXPECT_EQ(windows_of(ids, 1, 3), (Windows{{1, 5, 6}, {1, 7, 8}, {1, 9}}));
  EXPECT_EQ(windows_of(ids, {}, 2), (Windows{{5, 6}, {7, 8}}));  // one token alone predicts nothing
  EXPECT_EQ(windows_of({}, 1, 3), Windows{});
}

TEST(Quantize, MeasuresPerplexityAndDivergence) {
  const Llama<float>::Config config{
      .vocabulary = 11, .layers = 1, .block = {.width = 8, .hidden = 12, .heads = 2, .dropout = 0}};
  Llama<float> exact(config), other(config);
  initialize(exact, 1);
  initialize(other, 2);
  const std::vector<std::vector<Id>> windows{{1, 5, 6, 3}, {1, 7}};
  Context ctx(Threads(2));
  double sum = 0, divergence = 0;
  for (const auto& window : windows) {
    sum += score(ctx, other, {window})[0].sum;
    const ConstView<Id, 2> ids(window.data(), Shape{Index{1}, static_cast<Index>(window.size())});
    const auto p = exact(ctx, {.ids = ids}), q = other(ctx, {.ids = ids});
    for (Index n = 0; n + 1 < p.extent(1); ++n) {
      double of_p = 0, of_q = 0;
      for (Index v = 0; v < 11; ++v) of_p += std::exp(double{p(0, n, v)}), of_q += std::exp(double{q(0, n, v)});
      for (Index v = 0; v < 11; ++v) {
        const double share = std::exp(double{p(0, n, v)}) / of_p;
        divergence += share * std::log(share / (std::exp(double{q(0, n, v)}) / of_q));
      }
    }
  }
  const Quality quality = quality_of(ctx, other, exact, windows);
  EXPECT_NEAR(quality.perplexity, std::exp(-sum / 4), 1e-5);
  EXPECT_NEAR(quality.divergence, divergence / 4, 1e-5);
  EXPECT_EQ(quality_of(ctx, exact, exact, windows).divergence, 0);
}

TEST(Quantize, AHeadMayHaveItsOwnFormat) {
  const Recipe recipe{Format::int4, 64, Format::int8};
  EXPECT_EQ(recipe.name(), "int4, groups of 64, head int8");
  EXPECT_EQ(recipe.format_of()("embedding.weight"), std::optional(Format::int8));
  EXPECT_EQ(recipe.format_of()("head.weight"), std::optional(Format::int8));
  EXPECT_EQ(recipe.format_of()("decoder.blocks.0.attention.query.weight"), std::nullopt);
}

}  // namespace
}  // namespace quantizing::test
