// Checkpoints in memory, to be changed and loaded again.
#pragma once

#include <bit>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "eigenformer/pretrained/hugging_face.hpp"
#include "support/files.hpp"
#include "support/tensors.hpp"

namespace eigenformer::test {

struct StoredValues {
  std::vector<Index> shape;
  std::vector<float> values;
  std::string dtype = "F32";
};

/// A number in 16 bits; it must be one of theirs, and not subnormal.
inline std::string sixteen_bits(float value, bool brain) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (brain) return bytes_of(static_cast<std::uint16_t>(bits >> 16));
  if (value == 0) return bytes_of(static_cast<std::uint16_t>(bits >> 16 & 0x8000u));
  return bytes_of(
      static_cast<std::uint16_t>((bits >> 16 & 0x8000u) | ((bits >> 23 & 0xffu) - 112) << 10 | (bits >> 13 & 0x3ffu)));
}

/// A folder's content.
struct Checkpoint {
  nlohmann::json config;
  std::map<std::string, StoredValues> tensors;

  std::string safetensors() const {
    nlohmann::json header = nlohmann::json::object();
    std::string data;
    for (const auto& [name, tensor] : tensors) {
      const std::size_t begin = data.size();
      for (const float value : tensor.values)
        data += tensor.dtype == "F32" ? bytes_of(value) : sixteen_bits(value, tensor.dtype == "BF16");
      header[name] = {{"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {begin, data.size()}}};
    }
    return safetensors_bytes(header.dump(), data);
  }
  CheckpointFiles open() const {
    return CheckpointFiles(config.dump(), std::make_unique<std::istringstream>(safetensors()));
  }

  void rename(const std::string& from, const std::string& to) {
    auto node = tensors.extract(from);
    node.key() = to;
    tensors.insert(std::move(node));
  }
};

inline Checkpoint read_checkpoint(const std::filesystem::path& folder) {
  Checkpoint checkpoint{nlohmann::json::parse(read_file(folder / "config.json")), {}};
  Safetensors file(folder / "model.safetensors");
  for (const auto& [name, stored] : file.tensors()) {
    StoredValues& to = checkpoint.tensors[name];
    to.shape = stored.shape;
    Tensor<float, 2> two;
    Tensor<float, 1> one;
    if (stored.shape.size() == 2) two = file.read<float, 2>(name);
    else one = file.read<float, 1>(name);
    to.values.assign(two.data() ? two.data() : one.data(),
                     two.data() ? two.data() + two.size() : one.data() + one.size());
  }
  return checkpoint;
}

template <class Model>
Checkpoint checkpoint_of(const Model& model, const PretrainedFacts& facts = {.max_positions = 16}) {
  const TemporaryFolder folder;
  save_hugging_face(folder / "x", model, facts);
  return read_checkpoint(folder / "x");
}

/// A random model.
template <class Model>
Model small_model(const typename Model::Config& config, std::uint64_t seed = 1) {
  Model model(config);
  randomize(model, seed);
  return model;
}

template <class Config = Llama<>::Config>
Config small_llama() {
  Config config{.vocabulary = 11,
                .max_positions = 16,
                .layers = 2,
                .block = {.width = 8,
                          .hidden = 12,
                          .heads = 4,
                          .dropout = 0,
                          .attention = {.kv_heads = 2, .bias = false},
                          .residual = {.norm = {.epsilon = 1e-5}}},
                .tied = false};
  if constexpr (requires { config.block.attention.per_head.norm; }) config.block.attention.per_head.norm.epsilon = 1e-5;
  return config;
}
inline Gpt2<>::Config small_gpt2() {
  return {.vocabulary = 7,
          .max_positions = 5,
          .layers = 1,
          .block = {.width = 4, .hidden = 16, .heads = 2, .dropout = 0.1, .residual = {.norm = {.epsilon = 1e-5}}}};
}
inline Bert<>::Config small_bert(bool pooler = true) {
  return {.vocabulary = 9,
          .max_positions = 6,
          .layers = 1,
          .block = {.width = 4, .hidden = 10, .heads = 2, .dropout = 0.1, .residual = {.norm = {.epsilon = 1e-12}}},
          .pooler = pooler};
}
/// Of T5 if tied, else of T5v11.
template <bool tied>
auto small_t5() {
  auto config = detail::t5_config<typename std::conditional_t<tied, T5<>, T5v11<>>::Config>(1, 8, 10, 2, tied);
  config.source_vocabulary = config.target_vocabulary = 40;
  config.block.attention.head_width = 3;
  config.sharing = tied ? Sharing::all : Sharing::source_and_target;
  return config;
}
template <bool marian>
auto small_bart() {
  using Config = typename std::conditional_t<marian, Marian<>, Bart<>>::Config;
  return Config{.source_vocabulary = 13,
                .target_vocabulary = 13,
                .encoder_layers = 1,
                .decoder_layers = 1,
                .block = {.width = 8, .hidden = 12, .heads = 2},
                .max_positions = 6,
                .scaled_embedding = marian,
                .embedding_norm = !marian,
                .logit_bias = marian};
}

}  // namespace eigenformer::test
