// A model in a format below 32 bits gives the same bits whole, token by token, in any batch and on any threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "eigenformer/decode/generate.hpp"
#include "eigenformer/decode/score.hpp"
#include "eigenformer/model/decoders.hpp"
#include "support/error.hpp"
#include "support/tensors.hpp"

namespace eigenformer::test {
namespace {

Llama<float> format_llama() {
  Llama<float> model({.vocabulary = 90,
                      .layers = 2,
                      .block = {.width = 48, .hidden = 72, .heads = 6, .dropout = 0, .attention = {.kv_heads = 2}}});
  randomize(model, 3);
  return model;
}

}  // namespace

TEST(FormatModel, SameBitsHoweverComputed) {
  for (const Format format : {Format::f16, Format::bf16, Format::int8, Format::int4}) {
    SCOPED_TRACE(format_name(format));
    Llama<float> model = format_llama();
    Context ctx;
    const auto exact = Tensor<float, 3>(model(ctx, {.ids = random_ids(Shape{2, 40}, 0, 90, 1)}));
    pack(ctx, model, {.format = format, .keep_values = false});
    const std::vector<std::vector<Id>> prompts{{1, 5, 7, 2, 80, 44, 3}, {12}, {8, 8, 9}};
    const GenerateConfig config{.max_tokens = 25, .sampling = Sampling{.seed = 1}, .log_probabilities = true};
    const auto together = generate(ctx, model, prompts, config);
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      Context other(Threads(3));
      GenerateConfig alone = config;
      alone.first_sequence = static_cast<Index>(i);
      alone.chunk = 2;
      const auto one = generate(other, model, {prompts[i]}, alone);
      EXPECT_EQ(one[0].tokens, together[i].tokens);
      EXPECT_EQ(one[0].log_probabilities, together[i].log_probabilities);
      // and by one full pass over the whole text
      std::vector<Id> text = prompts[i];
      text.insert(text.end(), one[0].tokens.begin(), one[0].tokens.end());
      const auto logits =
          model(ctx, {.ids = ConstView<Id, 2>(text.data(), Shape{Index{1}, static_cast<Index>(text.size())})});
      const auto state_logits = [&] {
        auto state = model.start(1);
        Tensor<float, 2> rows(Shape{static_cast<Index>(text.size()), 90});
        for (std::size_t t = 0; t < text.size(); ++t) {
          const std::vector<Index> counts{1};
          const auto step = model.next_logits(ctx, {{&text[t], 1}, counts}, state);
          std::copy_n(step.data(), 90, rows.view().row(static_cast<Index>(t)));
        }
        return rows;
      }();
      for (Index t = 0; t < state_logits.extent(0); ++t)
        for (Index v = 0; v < 90; ++v) ASSERT_EQ(state_logits(t, v), logits(0, t, v)) << t << ", " << v;
    }
    // Fifteen products on the way, each off by half a step of its format and a little more.
    const auto packed = model(ctx, {.ids = random_ids(Shape{2, 40}, 0, 90, 1)});
    double error = 0, size = 0;
    for (Index i = 0; i < exact.size(); ++i) {
      error += std::pow(packed.data()[i] - exact.data()[i], 2);
      size += std::pow(exact.data()[i], 2);
    }
    const double product = format == Format::int4 ? 0.081 : format == Format::int8 ? 0.012 : 0.0025;
    EXPECT_LE(std::sqrt(error / size), product * std::sqrt(15.0));
    EXPECT_GT(error, 0);
  }
}

TEST(FormatModel, PartsMayDiffer) {
  Llama<float> model = format_llama();
  Context ctx;
  pack(
      ctx, model,
      {.format = Format::int4, .keep_values = false, .format_of = [](const std::string& path) -> std::optional<Format> {
         if (path.ends_with("head.weight") || path.starts_with("embedding")) return Format::int8;
         return std::nullopt;
       }});
  int others = 0;
  walk(
      [&](const std::string& path, const Leaf&, const auto& weight) {
        if constexpr (requires { weight.format(); }) {
          const bool end = path == "embedding.weight" || path == "head.weight";
          others += !end;
          EXPECT_EQ(weight.format(), end ? Format::int8 : Format::int4) << path;
        }
      },
      model);
  EXPECT_EQ(others, 14);
}

}  // namespace eigenformer::test
