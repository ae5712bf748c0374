// A libFuzzer target: bytes of a stranger as a checkpoint. Only Error may be thrown, and little memory asked for.
//
//   clang++ -std=c++20 -O1 -g -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined -I include -isystem
//   /usr/include/eigen3 \
//       tests/fuzz/checkpoint_fuzz.cpp -o checkpoint_fuzz
//   mkdir -p corpus && EIGENFORMER_FUZZ_SEEDS=corpus ./checkpoint_fuzz -runs=0
//   ./checkpoint_fuzz -max_total_time=600 -max_len=20000 -malloc_limit_mb=64 -rss_limit_mb=1024 corpus
//
// The first four bytes say how many of the others are config.json; the rest is model.safetensors. If they say more than
// there are, all is a llama2.c file.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>

#include "eigenformer/core/initialize.hpp"
#include "eigenformer/pretrained/hugging_face.hpp"

namespace {

using namespace eigenformer;

std::string read_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Writes a small model as an input.
template <class Model>
void write_seed(const std::filesystem::path& folder, const char* name, Model model) {
  initialize(model, 1);
  const std::filesystem::path saved = folder / "saved";
  save_hugging_face(saved, model, {.max_positions = 16});
  const std::string config = read_bytes(saved / "config.json"), tensors = read_bytes(saved / "model.safetensors");
  std::filesystem::remove_all(saved);
  const auto size = static_cast<std::uint32_t>(config.size());
  char split[4];
  std::memcpy(split, &size, 4);
  std::ofstream(folder / name, std::ios::binary) << std::string(split, 4) << config << tensors;
}

void write_seeds(const std::filesystem::path& folder) {
  Llama<>::Config config{.vocabulary = 3,
                         .max_positions = 4,
                         .layers = 1,
                         .block = {.width = 4,
                                   .hidden = 4,
                                   .heads = 1,
                                   .dropout = 0,
                                   .attention = {.bias = false},
                                   .residual = {.norm = {.epsilon = 1e-5}}}};
  write_seed(folder, "llama", Llama<float>(config));
  config.position.scaling = YarnScaling{2, 8};
  config.block.attention.window = 2;
  write_seed(folder, "mistral", Mistral<float>(config));
  config.position.scaling = LongScaling{{1, 2}, {2, 3}, 4, 16};
  config.block.attention.bias = true;
  config.block.attention.output_bias = false;
  write_seed(folder, "qwen2", Qwen2<float>(config));
  write_seed(
      folder, "gpt2",
      Gpt2<float>({.vocabulary = 3, .max_positions = 4, .layers = 1, .block = {.width = 2, .hidden = 8, .heads = 1}}));
  write_seed(
      folder, "bert",
      Bert<float>({.vocabulary = 3, .max_positions = 4, .layers = 1, .block = {.width = 2, .hidden = 2, .heads = 1}}));
  write_seed(folder, "bart",
             Bart<float>({.source_vocabulary = 3,
                          .target_vocabulary = 3,
                          .encoder_layers = 1,
                          .decoder_layers = 1,
                          .block = {.width = 2, .hidden = 2, .heads = 1},
                          .max_positions = 4,
                          .scaled_embedding = false,
                          .embedding_norm = true}));
  write_seed(folder, "marian",
             Marian<float>({.source_vocabulary = 3,
                            .target_vocabulary = 3,
                            .encoder_layers = 1,
                            .decoder_layers = 1,
                            .block = {.width = 2, .hidden = 2, .heads = 1},
                            .max_positions = 4,
                            .scaled_embedding = false,
                            .logit_bias = true}));
  auto t5 = detail::t5_config<T5<>::Config>(1, 2, 2, 1, true);
  t5.source_vocabulary = t5.target_vocabulary = 3;
  write_seed(folder, "t5", T5<float>(t5));
  std::string llama2c(4, '\xff');
  for (const char size : std::string("\4\3\1\2\1\5\2")) llama2c.append({size, '\0', '\0', '\0'});
  std::ofstream(folder / "llama2c", std::ios::binary) << llama2c << std::string(480, '\0');
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  if (const char* const folder = std::getenv("EIGENFORMER_FUZZ_SEEDS")) write_seeds(folder);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 4) return 0;
  std::uint32_t split = 0;
  std::memcpy(&split, data, 4);
  const std::string bytes(reinterpret_cast<const char*>(data) + 4, size - 4);
  try {
    if (split > bytes.size()) {
      std::istringstream stream(bytes);
      load_llama2c<float>(stream);
    } else {
      CheckpointFiles files(bytes.substr(0, split), std::make_unique<std::istringstream>(bytes.substr(split)));
      load_pretrained<float>(files);
    }
  } catch (const Error&) {
  }
  return 0;
}
