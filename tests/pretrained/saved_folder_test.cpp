// A folder that a model is saved to describes this model alone; what is nobody's model stays.
#include "eigenformer/pretrained/saved_folder.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "pretrained/stored.hpp"
#include "support/error.hpp"
#include "support/files.hpp"
#include "support/tensors.hpp"

namespace eigenformer::test {
namespace {

std::set<std::string> file_names_in(const std::filesystem::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.insert(entry.path().filename().string());
  return names;
}
const std::set<std::string> model_files{"config.json", "generation_config.json", "model.safetensors"};
std::set<std::string> model_files_and(const std::set<std::string>& more) {
  std::set<std::string> names = model_files;
  names.insert(more.begin(), more.end());
  return names;
}

}  // namespace

TEST(SavedFolder, GenerationIsThatOfThisModel) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "x");
  write_file(folder / "x/generation_config.json",
             R"({"eos_token_id": [2], "bos_token_id": 9, "forced_bos_token_id": 3, "temperature": 0.5})");
  const auto model = small_model<Llama<float>>(small_llama());
  const PretrainedFacts facts{.bos = 1, .eos = {7, 8}, .max_positions = 16};
  save_hugging_face(folder / "x", model, facts);
  const auto loaded = load_hugging_face<Llama<float>>(folder / "x");
  EXPECT_EQ(loaded.facts.eos, (std::vector<Id>{7, 8}));
  EXPECT_EQ(loaded.facts.bos, 1);
  EXPECT_EQ(loaded.facts.pad, std::nullopt);
  EXPECT_TRUE(loaded.facts.warnings.empty());
  EXPECT_EQ(nlohmann::json::parse(read_file(folder / "x/generation_config.json")),
            nlohmann::json({{"bos_token_id", 1}, {"pad_token_id", nullptr}, {"eos_token_id", {7, 8}}}));
  EXPECT_EQ(file_names_in(folder / "x"), model_files);
}

TEST(SavedFolder, ShardsOfAnEarlierSaveGo) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "x");
  for (const char* name :
       {"model.safetensors.index.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"})
    write_file(folder / "x" / name, "old");
  const std::set<std::string> others{
      "README.md",         "model-1-of-2.safetensors", "model-00001-of-00002.safetensors.md5",
      "training_args.bin", "trainer.safetensors",      "tokenizer.json"};
  for (const std::string& name : others) write_file(folder / "x" / name, "mine");
  const auto model = small_model<Llama<float>>(small_llama());
  save_hugging_face(folder / "x", model, {.max_positions = 16});
  EXPECT_EQ(file_names_in(folder / "x"), model_files_and(others));
  for (const std::string& name : others) EXPECT_EQ(read_file(folder / "x" / name), "mine");
  expect_identical_models(load_hugging_face<Llama<float>>(folder / "x").model, model);
}

TEST(SavedFolder, WeightsOfOtherKindsAreAnError) {
  const auto model = small_model<Llama<float>>(small_llama());
  for (const char* name :
       {"pytorch_model.bin", "pytorch_model-00001-of-00002.bin", "pytorch_model.bin.index.json", "tf_model.h5",
        "flax_model.msgpack", "adapter_config.json", "adapter_model.safetensors", "consolidated.safetensors",
        "consolidated.00.pth", "quantize_config.json", "model.fp16.safetensors"}) {
    const TemporaryFolder folder;
    std::filesystem::create_directories(folder / "x");
    write_file(folder / "x" / name, "");
    EXPECT_EQ(error_of([&] { save_hugging_face(folder / "x", model, {.max_positions = 16}); }),
              "[pretrained] " + (folder / "x" / name).string() +
                  ": is not of this model, but other programs would load it: remove it, or save to another folder");
    EXPECT_EQ(file_names_in(folder / "x"), std::set<std::string>{name}) << "nothing was written";
  }
}

TEST(SavedFolder, TokenizerOfASource) {
  const TemporaryFolder folder;
  for (const char* name : {"from", "to", "empty"}) std::filesystem::create_directories(folder / name);
  write_file(folder / "from/tokenizer.model", std::string("a\0b\n", 4));
  write_file(folder / "from/tokenizer_config.json", "{}");
  write_file(folder / "from/special_tokens_map.json", "");
  write_file(folder / "from/config.json", "another model's");
  write_file(folder / "to/vocab.json", "old");
  write_file(folder / "to/tokenizer_config.json", "old");
  const auto model = small_model<Llama<float>>(small_llama());
  save_hugging_face(folder / "to", model, {.max_positions = 16}, {.tokenizer = folder / "from"});
  EXPECT_EQ(file_names_in(folder / "to"),
            model_files_and({"special_tokens_map.json", "tokenizer.model", "tokenizer_config.json"}));
  for (const char* name : {"tokenizer.model", "tokenizer_config.json", "special_tokens_map.json"})
    EXPECT_EQ(read_file(folder / "to" / name), read_file(folder / "from" / name));
  EXPECT_NO_THROW(load_hugging_face<Llama<float>>(folder / "to"));
  // From where it is already.
  save_hugging_face(folder / "to", model, {.max_positions = 16}, {.tokenizer = folder / "to/../to"});
  EXPECT_EQ(read_file(folder / "to/tokenizer_config.json"), "{}");

  for (const char* name : {"empty", "absent"})
    EXPECT_EQ(error_of([&] {
                save_hugging_face(folder / "new", model, {.max_positions = 16}, {.tokenizer = folder / name});
              }),
              "[pretrained] " + (folder / name).string() + ": is not a folder with a tokenizer");
  EXPECT_FALSE(std::filesystem::exists(folder / "new"));
}

TEST(SavedFolder, TokenizerOfAnotherVocabularyIsAnError) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "from");
  write_file(folder / "from/tokenizer.json", "its own");
  Llama<>::Config config = small_llama();
  save_hugging_face(folder / "x", small_model<Llama<float>>(config), {.max_positions = 16});
  write_file(folder / "x/merges.txt", "old");
  save_hugging_face(folder / "x", small_model<Llama<float>>(config, 2), {.max_positions = 16});  // as after training
  EXPECT_EQ(read_file(folder / "x/merges.txt"), "old");
  config.vocabulary = 12;
  const auto other = small_model<Llama<float>>(config);
  const std::string before = read_file(folder / "x/model.safetensors");
  const std::string error = error_of([&] { check_hugging_face(folder / "x", other, {.max_positions = 16}); });
  EXPECT_EQ(error_of([&] { save_hugging_face(folder / "x", other, {.max_positions = 16}); }), error);
  EXPECT_EQ(error,
            "[pretrained] " + (folder / "x/merges.txt").string() +
                ": is the tokenizer of a model of 11 tokens, this one has 12: name its own in the options, or save to "
                "another folder");
  EXPECT_EQ(read_file(folder / "x/model.safetensors"), before);
  check_hugging_face(folder / "x", other, {.max_positions = 16}, {.tokenizer = folder / "from"});
  check_hugging_face(folder / "new", other, {.max_positions = 16});
  EXPECT_FALSE(std::filesystem::exists(folder / "new"));
  EXPECT_EQ(read_file(folder / "x/model.safetensors"), before) << "a check writes nothing";
  save_hugging_face(folder / "x", other, {.max_positions = 16}, {.tokenizer = folder / "from"});
  EXPECT_EQ(file_names_in(folder / "x"), model_files_and({"tokenizer.json"}));
}

}  // namespace eigenformer::test
