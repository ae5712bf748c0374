// Writes a LLaMA of random weights as a folder in the layout of Hugging Face, BF16, for us and for others to run: by
// default of TinyLlama's shape, 1.1 B weights. They are made as they are written: a row is all the memory it takes.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "eigenformer/core/error.hpp"
#include "eigenformer/core/half.hpp"
#include "eigenformer/core/random.hpp"
#include "eigenformer/io/replace_file.hpp"
#include "eigenformer/io/safetensors.hpp"

namespace {

using namespace eigenformer;

using Sizes = std::map<std::string, Index>;  // by flag

/// Weights of a standard deviation of 0.02, which depend on the seed, the tensor and the place alone.
class RandomLlama {
 public:
  explicit RandomLlama(const Sizes& sizes) : seed_(static_cast<std::uint64_t>(sizes.at("seed"))) {
    const auto size = [&](const char* name) { return sizes.at(name); };
    const Index width = size("width"), hidden = size("hidden"), keys = width / size("heads") * size("kv_heads");
    matrix("model.embed_tokens", size("vocabulary"), width);
    matrix("lm_head", size("vocabulary"), width);
    for (Index i = 0; i < size("layers"); ++i) {
      const std::string layer = "model.layers." + std::to_string(i);
      for (const char* part : {".self_attn.q_proj", ".self_attn.o_proj"}) matrix(layer + part, width, width);
      for (const char* part : {".self_attn.k_proj", ".self_attn.v_proj"}) matrix(layer + part, keys, width);
      for (const char* part : {".mlp.gate_proj", ".mlp.up_proj"}) matrix(layer + part, hidden, width);
      matrix(layer + ".mlp.down_proj", width, hidden);
      for (const char* part : {".input_layernorm", ".post_attention_layernorm"}) norm(layer + part, width);
    }
    norm("model.norm", width);
    writer_.metadata["format"] = "pt";
  }

  void write(const std::filesystem::path& file) const { writer_.write(file); }
  double weights() const { return weights_; }

 private:
  /// (Out, In)
  void matrix(const std::string& name, Index out, Index in) {
    weights_ += static_cast<double>(out) * static_cast<double>(in);
    const std::uint64_t seed = seed_;
    const std::uint32_t number = ++matrices_;
    writer_.add_rows<BrainFloat>(name + ".weight", Shape{out, in}, [=](Index i, BrainFloat* row) {
      const float scale = 0.02F * std::sqrt(12.0F) * 0x1p-32F;
      PhiloxBlock block{};
      for (Index j = 0; j < in; ++j) {
        if (j % 4 == 0) block = philox({static_cast<std::uint32_t>(j), static_cast<std::uint32_t>(i), number, 0}, seed);
        row[j] = to_brain_float((static_cast<float>(block[static_cast<std::size_t>(j % 4)]) - 0x1p31F) * scale);
      }
    });
  }
  void norm(const std::string& name, Index width) {
    weights_ += static_cast<double>(width);
    ones_.resize(static_cast<std::size_t>(width), to_brain_float(1));  // all norms are of this width
    writer_.add(name + ".weight", ConstView<BrainFloat, 1>(ones_.data(), Shape{width}));
  }

  std::vector<BrainFloat> ones_;
  SafetensorsWriter writer_;
  std::uint64_t seed_;
  std::uint32_t matrices_ = 0;
  double weights_ = 0;
};

void write_config(const std::filesystem::path& file, const Sizes& sizes) {
  const nlohmann::json config{{"architectures", {"LlamaForCausalLM"}},
                              {"model_type", "llama"},
                              {"torch_dtype", "bfloat16"},
                              {"hidden_act", "silu"},
                              {"rms_norm_eps", 1e-5},
                              {"rope_theta", 10000.0},
                              {"attention_bias", false},
                              {"tie_word_embeddings", false},
                              {"bos_token_id", 1},
                              {"eos_token_id", 2},
                              {"vocab_size", sizes.at("vocabulary")},
                              {"hidden_size", sizes.at("width")},
                              {"intermediate_size", sizes.at("hidden")},
                              {"num_hidden_layers", sizes.at("layers")},
                              {"num_attention_heads", sizes.at("heads")},
                              {"num_key_value_heads", sizes.at("kv_heads")},
                              {"max_position_embeddings", sizes.at("positions")}};
  replace_file("random_llama", file, [&](std::ostream& to) { to << config.dump(2) << '\n'; });
}

int run(int argc, char** argv) {
  Sizes sizes{{"width", 2048}, {"hidden", 5632},      {"layers", 22},      {"heads", 32},
              {"kv_heads", 4}, {"vocabulary", 32000}, {"positions", 2048}, {"seed", 1}};
  if (argc < 2 || argc % 2 != 0) {
    std::fprintf(stderr, "usage: %s FOLDER", argv[0]);
    for (const auto& [name, value] : sizes) std::fprintf(stderr, " [--%s %td]", name.c_str(), value);
    std::fprintf(stderr, "\n");
    return 2;
  }
  for (int i = 2; i < argc; i += 2) {
    const std::string flag = argv[i];
    const auto size = flag.starts_with("--") ? sizes.find(flag.substr(2)) : sizes.end();
    ensure(size != sizes.end(), "random_llama", "there is no ", flag);
    char* end = nullptr;
    size->second = static_cast<Index>(std::strtoll(argv[i + 1], &end, 10));
    ensure(*end == '\0' && size->second > 0 && size->second <= 1 << 24, "random_llama", flag, " ", argv[i + 1],
           " is no size");
  }
  ensure(sizes["width"] % sizes["heads"] == 0 && sizes["heads"] % sizes["kv_heads"] == 0, "random_llama", "width ",
         sizes["width"], " in ", sizes["heads"], " heads, of ", sizes["kv_heads"], " keys and values, leaves a rest");
  const std::filesystem::path folder = argv[1];
  std::filesystem::create_directories(folder);
  const RandomLlama model(sizes);
  model.write(folder / "model.safetensors");
  write_config(folder / "config.json", sizes);
  std::printf("%s: %.0f M weights\n", argv[1], model.weights() / 1e6);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
