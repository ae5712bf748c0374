// What a real story model says: the reference's text, and the same whatever else is in the batch. Skipped where its
// files are not there.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "eigenformer/decode/beam.hpp"
#include "eigenformer/decode/generate.hpp"
#include "eigenformer/pretrained/hugging_face.hpp"
#include "eigenformer/text/llama2c_tokenizer.hpp"
#include "support/shared_data.hpp"

namespace eigenformer::test {
namespace {

class Stories : public testing::Test {
 protected:
  const std::filesystem::path folder = shared_data() / "stories260K";

  void SetUp() override {
    if (!std::filesystem::exists(folder / "stories260K.bin")) GTEST_SKIP() << "the files are not here";
  }
};

}  // namespace

TEST_F(Stories, GreedyTextIsTheReference) {
  std::ifstream file(folder / "greedy256.txt", std::ios::binary);
  const std::string reference(std::istreambuf_iterator<char>(file), {});
  ASSERT_GT(reference.size(), 500u);
  const Llama2cTokenizer tokenizer(folder / "tok512.bin");
  for (const int threads : {1, 3}) {
    Context ctx{Threads(threads)};
    auto from_file = load_llama2c(folder / "stories260K.bin"),
         from_folder = load_hugging_face<Llama<float>>(folder / "hf");
    pack(ctx, from_folder.model);
    for (const auto* loaded : {&from_file, &from_folder}) {
      std::string text;
      TextStream stream(tokenizer);
      stream.next(*tokenizer.bos());
      const auto results =
          generate(ctx, loaded->model, {tokenizer.encode("")}, {.max_tokens = 256, .on_token = [&](Index, Id id) {
                                                                  text += stream.next(id);
                                                                  return true;
                                                                }});
      EXPECT_EQ(text + stream.flush() + "\n", reference);
      EXPECT_EQ(tokenizer.decode(results[0].tokens) + "\n", " " + reference)
          << "without the bos token, a first space stays";
    }
  }
}

TEST_F(Stories, EachOf32PromptsIsAsAlone) {
  const auto loaded = load_llama2c(folder / "stories260K.bin");
  const Llama2cTokenizer tokenizer(folder / "tok512.bin");
  const std::string words[] = {"Once",  " upon",       " a time",     " there",   " was a",  " little",
                               " girl", " named Lily", ". She loved", " to play", " outside"};
  std::vector<std::vector<Id>> prompts;
  for (std::size_t i = 0; i < 32; ++i) {
    std::string text;
    for (std::size_t word = i % 5; word <= i % 5 + i / 5; ++word) text += words[word];
    prompts.push_back(tokenizer.encode(text));
  }
  GenerateConfig config{.max_tokens = 40, .eos = {1, 2}, .log_probabilities = true, .chunk = 3};
  BeamConfig beams{.max_tokens = 12, .eos = {1, 2}, .beams = 3, .n_best = 3, .penalty = LengthPenalty::power};
  for (const bool drawn : {false, true}) {
    Context ctx{Threads(2)};
    if (drawn) config.sampling = Sampling{.temperature = 0.9, .top_p = 0.95, .seed = 5};
    config.first_sequence = 0;
    const auto together = generate(ctx, loaded.model, prompts, config);
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      config.first_sequence = static_cast<Index>(i);
      const auto alone = generate(ctx, loaded.model, {prompts[i]}, config);
      EXPECT_EQ(together[i].tokens, alone[0].tokens) << i;
      EXPECT_EQ(together[i].log_probabilities, alone[0].log_probabilities) << i;
    }
  }
  Context ctx;
  const auto together = beam_search(ctx, loaded.model, prompts, beams);
  for (std::size_t i = 0; i < prompts.size(); i += 7) {
    const auto alone = beam_search(ctx, loaded.model, {prompts[i]}, beams);
    ASSERT_EQ(together[i].size(), alone[0].size());
    for (std::size_t n = 0; n < alone[0].size(); ++n) {
      EXPECT_EQ(together[i][n].tokens, alone[0][n].tokens) << i;
      EXPECT_EQ(together[i][n].log_probabilities, alone[0][n].log_probabilities) << i;
    }
  }
}

}  // namespace eigenformer::test
