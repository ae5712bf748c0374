// Every setting of decoding has a range: what lies outside is an Error before the model has run.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "decode/toy_model.hpp"
#include "eigenformer/decode/beam.hpp"
#include "eigenformer/decode/generate.hpp"
#include "support/error.hpp"

namespace eigenformer::test {
namespace {

template <class Config>
using BadSettings = std::vector<std::pair<std::string, Config>>;  // by field

const double no_number = std::nan(""), endless_setting = HUGE_VAL;
constexpr Index smallest_index = std::numeric_limits<Index>::min();

/// The message names what is wrong.
void expect_named(const std::string& words, const std::function<void()>& call) {
  const std::string message = error_of(call);
  EXPECT_NE(message.find(words), std::string::npos) << words << ": " << message;
}

TEST(DecodeConfig, GenerateConfig) {
  BadSettings<GenerateConfig> cases;
  for (const Index n : {Index{-1}, smallest_index}) {
    cases.push_back({"max_tokens", {.max_tokens = n}});
    cases.push_back({"min_tokens", {.min_tokens = n}});
    cases.push_back({"first_sequence", {.first_sequence = n}});
    cases.push_back({"chunk", {.chunk = n}});
    cases.push_back({"draft_tokens", {.draft_tokens = n}});
    cases.push_back({"top_k", {.sampling = Sampling{.top_k = n}}});
    cases.push_back({"no_repeat", {.rules = {.no_repeat = n}}});
    cases.push_back({"step ", {.rules = {.forced = {{n, 1}}}}});
  }
  for (const Id id : {Id{-1}, std::numeric_limits<Id>::min()}) {
    cases.push_back({"there is no token ", {.eos = {1, id}}});
    cases.push_back({"there is no token ", {.bos = id}});
    cases.push_back({"there is no token ", {.stops = {{1}, {1, id}}}});
    cases.push_back({"there is no token ", {.prefixes = {{1}, {id}}}});
    cases.push_back({"there is no token ", {.rules = {.suppressed = {id}}}});
    cases.push_back({"there is no token ", {.rules = {.forced = {{0, id}}}}});
  }
  for (const double t : {-1.0, -0.001, endless_setting, -endless_setting, no_number})
    cases.push_back({"temperature", {.sampling = Sampling{.temperature = t}}});
  for (const double p : {-0.001, 1.001, endless_setting, -endless_setting, no_number}) {
    cases.push_back({"top_p", {.sampling = Sampling{.top_p = p}}});
    cases.push_back({"min_p", {.sampling = Sampling{.min_p = p}}});
  }
  for (const double penalty : {0.0, -1.0, endless_setting, -endless_setting, no_number})
    cases.push_back({"repetition_penalty", {.rules = {.repetition_penalty = penalty}}});
  cases.push_back({"min_tokens", {.max_tokens = 3, .min_tokens = 4}});
  cases.push_back({"an empty stop sequence", {.stops = {{}}}});
  cases.push_back({"1 prefixes for 2", {.prefixes = {{1}}}});
  cases.push_back({"3 prefixes for 2", {.prefixes = {{1}, {1}, {1}}}});
  cases.push_back({"two tokens forced at step 1", {.rules = {.forced = {{1, 2}, {0, 2}, {1, 3}}}}});
  cases.push_back({"first_sequence", {.first_sequence = largest_index}});
  cases.push_back({"chunk", {.chunk = 0}});
  const ToyModel<> model{5, hashed(5, 1, 1)};
  Context ctx;
  for (const auto& [field, config] : cases)
    expect_named(field, [&, settings = config] { generate(ctx, model, {{1}, {2}}, settings); });
  EXPECT_TRUE(model.passes.empty());
  const GenerateConfig widest{
      .max_tokens = largest_index,
      .eos = {0, 1, 2, 3, 4},
      .bos = 0,
      .stops = {{4}},
      .sampling = Sampling{.temperature = 1e300, .top_k = largest_index, .top_p = 1, .min_p = 1},
      .rules = {.repetition_penalty = 1e-300, .no_repeat = largest_index, .forced = {{largest_index, 0}}},
      .first_sequence = largest_index - 2,
      .chunk = largest_index};
  EXPECT_EQ(generate(ctx, model, {{1}, {2}}, widest)[1].ending, Ending::eos);
  const GenerateConfig narrowest{
      .max_tokens = 1, .min_tokens = 1, .sampling = Sampling{.temperature = 0, .top_p = 0}, .chunk = 1};
  EXPECT_EQ(generate(ctx, model, {{1}, {2}}, narrowest)[1].tokens.size(), 1u);
}

TEST(DecodeConfig, BeamConfig) {
  BadSettings<BeamConfig> cases;
  for (const Index n : {Index{-1}, smallest_index}) {
    cases.push_back({"max_tokens", {.max_tokens = n}});
    cases.push_back({"min_tokens", {.min_tokens = n}});
    cases.push_back({"no_repeat", {.rules = {.no_repeat = n}}});
  }
  for (const Index n : {Index{0}, Index{-1}, smallest_index}) {
    cases.push_back({"beams", {.beams = n}});
    cases.push_back({"n_best", {.n_best = n}});
    cases.push_back({"chunk", {.chunk = n}});
  }
  cases.push_back({"beams", {.beams = largest_index}});
  cases.push_back({"n_best", {.beams = 3, .n_best = 4}});
  for (const LengthPenalty rule : {LengthPenalty::none, LengthPenalty::wu, LengthPenalty::power})
    for (const double alpha : {endless_setting, -endless_setting, no_number})
      cases.push_back({"alpha", {.penalty = rule, .alpha = alpha}});
  for (const double alpha : {1e308, 200.0, -200.0})  // 100^200 is none, nor is its inverse
    cases.push_back({"the length penalty of 100 tokens", {.penalty = LengthPenalty::power, .alpha = alpha}});
  for (const Id id : {Id{-1}, std::numeric_limits<Id>::min()}) {
    cases.push_back({"there is no token ", {.eos = {1, id}}});
    cases.push_back({"there is no token ", {.bos = id}});
    cases.push_back({"there is no token ", {.prefixes = {{1}, {id}}}});
    cases.push_back({"there is no token ", {.rules = {.suppressed = {id}}}});
  }
  cases.push_back({"1 prefixes for 2", {.prefixes = {{1}}}});
  cases.push_back({"repetition_penalty", {.rules = {.repetition_penalty = 0}}});
  const ToyModel<> model{5, hashed(5, 1, 1)};
  Context ctx;
  for (const auto& [field, config] : cases)
    expect_named(field, [&, settings = config] { beam_search(ctx, model, {{1}, {2}}, settings); });
  EXPECT_TRUE(model.passes.empty());
  EXPECT_EQ(beam_search(ctx, model, {{1}, {2}},
                        {.max_tokens = 3,
                         .beams = 1 << 20,
                         .n_best = 1 << 20,
                         .penalty = LengthPenalty::power,
                         .alpha = 200,
                         .chunk = largest_index})[1]
                .size(),
            125u);
}

}  // namespace
}  // namespace eigenformer::test
