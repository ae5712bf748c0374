// A token costs no allocation: neither from one sequence nor from a batch, greedy, drawn or with beams.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "eigenformer/core/initialize.hpp"
#include "eigenformer/decode/beam.hpp"
#include "eigenformer/decode/generate.hpp"
#include "eigenformer/model/decoders.hpp"
#include "eigenformer/op/weight.hpp"

#define EIGENFORMER_COUNT_ALLOCATIONS
#include "support/allocations.hpp"

using namespace eigenformer;
using test::allocations;

namespace {

Llama<float> small_llama() {
  Llama<float> model({.vocabulary = 50,
                      .layers = 2,
                      .block = {.width = 32, .hidden = 48, .heads = 4, .dropout = 0, .attention = {.kv_heads = 2}}});
  initialize(model, 1);
  Context ctx;
  pack(ctx, model);
  return model;
}

/// Allocations of each step, by a processor that looks.
struct Watch {
  std::vector<std::size_t>* seen;
  void operator()(const DecodeStep& at, std::span<float>) const {
    if (at.sequence == 0) seen->push_back(allocations);
  }
};

}  // namespace

TEST(Allocations, NonePerGeneratedToken) {
  const auto model = small_llama();
  for (const int threads : {1, 2})
    for (const bool drawn : {false, true}) {
      Context ctx{Threads(threads)};
      std::vector<std::size_t> seen;
      seen.reserve(1000);
      GenerateConfig config{.max_tokens = 200, .rules = {.processors = {Watch{&seen}}, .repetition_penalty = 1.1}};
      if (drawn) config.sampling = Sampling{.top_k = 20, .top_p = 0.9};
      generate(ctx, model, {{1, 2, 3}, {4}, {5, 6}}, config);
      ASSERT_EQ(seen.size(), 200u);
      EXPECT_EQ(seen[199], seen[3]) << threads << " threads";
    }
}

// Nor with a draft, which the texts do and do not follow.
TEST(Allocations, NonePerDraftedToken) {
  const auto model = small_llama();
  const Llama<float> other = [] {
    Llama<float> made({.vocabulary = 50, .layers = 1, .block = {.width = 16, .hidden = 24, .heads = 2, .dropout = 0}});
    initialize(made, 2);
    return made;
  }();
  for (const Draft& draft : {Draft(&model), Draft(&other), Draft(LookUp{})}) {
    Context ctx{Threads(2)};
    std::vector<std::size_t> seen;
    seen.reserve(1000);
    generate(ctx, model, {{1, 2, 3}, {4}, {5, 6}},
             {.max_tokens = 300,
              .sampling = Sampling{.temperature = 0.5, .top_k = 5},
              .rules = {.processors = {Watch{&seen}}, .repetition_penalty = 1.1},
              .draft = draft});
    ASSERT_EQ(seen.size(), 300u);
    EXPECT_EQ(seen[250], seen[50]);
  }
}

// Beams fork: blocks of the cache come and go until there are enough, then no more are asked for.
TEST(Allocations, NonePerStepOfABeamSearch) {
  const auto model = small_llama();
  Context ctx;
  std::vector<std::size_t> seen;
  seen.reserve(1000);
  beam_search(ctx, model, {{1, 2, 3}, {4}}, {.max_tokens = 200, .beams = 4, .rules = {.processors = {Watch{&seen}}}});
  std::vector<std::size_t>
      steps;  // the processor sees sequence 0 once for each of its beams, of which the first step has one
  for (std::size_t i = 1; i < seen.size(); i += 4) steps.push_back(seen[i]);
  ASSERT_EQ(steps.size(), 199u);
  EXPECT_EQ(steps[198], steps[20]);
}
