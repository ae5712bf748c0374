// A libFuzzer target: bytes of a stranger as a GGUF file. Only Error may be thrown, and little memory asked for.
//
//   clang++ -std=c++20 -O1 -g -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined -I include -I tests
//   -isystem /usr/include/eigen3 tests/fuzz/gguf_fuzz.cpp -o gguf_fuzz -licui18n -licuuc
//   mkdir -p corpus && EIGENFORMER_FUZZ_SEEDS=corpus ./gguf_fuzz -runs=0
//   ./gguf_fuzz -max_total_time=600 -max_len=20000 -malloc_limit_mb=64 -rss_limit_mb=1024 corpus
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "eigenformer/io/gguf.hpp"
#include "eigenformer/pretrained/hugging_face.hpp"
#include "eigenformer/text/gguf_tokenizer.hpp"
#include "support/gguf.hpp"

namespace {

using namespace eigenformer;
using namespace eigenformer::test;

/// A small LLaMA whose matrices are of one type, with a tokenizer.
GgufBytes small_llama(const GgufType& type) {
  const auto width = static_cast<std::uint64_t>(type.block == 1 ? 4 : type.block);
  GgufBytes file;
  file.key("general.architecture", "llama").key("llama.block_count", 1u).key("llama.context_length", 8u);
  for (const char* const key : {"llama.embedding_length", "llama.feed_forward_length"})
    file.key(key, static_cast<std::uint32_t>(width));
  file.key("llama.attention.head_count", 1u).key("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  const auto matrix = [&](const std::string& name, std::uint64_t rows) {
    const std::uint64_t blocks = rows * width / static_cast<std::uint64_t>(type.block);
    file.tensor(name, {width, rows}, type.id,
                std::string(static_cast<std::size_t>(blocks) * static_cast<std::size_t>(type.bytes), '\1'));
  };
  const auto norm = [&](const std::string& name) {
    file.tensor(name, {static_cast<Index>(width)}, std::vector<float>(static_cast<std::size_t>(width), 1.0f));
  };
  matrix("token_embd.weight", 3);
  for (const char* const name : {"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"})
    matrix("blk.0." + std::string(name) + ".weight", width);
  for (const char* const name : {"blk.0.attn_norm.weight", "blk.0.ffn_norm.weight", "output_norm.weight"}) norm(name);
  return file;
}

void write_seeds(const std::filesystem::path& folder) {
  for (const GgufType& type : gguf_types) {
    GgufBytes file = small_llama(type);
    if (type.name == "F32")
      file.key("tokenizer.ggml.model", "llama")
          .list("tokenizer.ggml.tokens", {"<unk>", "<s>", "a"})
          .list("tokenizer.ggml.scores", 6, std::vector<float>{0, 0, -1})
          .list("tokenizer.ggml.token_type", 5, std::vector<std::int32_t>{2, 3, 1});
    if (type.name == "F16")
      file.key("tokenizer.ggml.model", "gpt2")
          .key("tokenizer.ggml.pre", "gpt-2")
          .list("tokenizer.ggml.tokens", {"a", "b", "ab"})
          .list("tokenizer.ggml.merges", {"a b"});
    std::ofstream(folder / type.name, std::ios::binary) << file.bytes();
  }
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  if (const char* const folder = std::getenv("EIGENFORMER_FUZZ_SEEDS")) write_seeds(folder);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    Gguf file(std::make_unique<std::istringstream>(std::string(reinterpret_cast<const char*>(data), size)), "file");
    const auto kind = file.metadata().find("tokenizer.ggml.model");
    if (kind == file.metadata().end() || *kind != "t5") try {  // SentencePiece's own library trusts its models
        const auto tokenizer = load_gguf_tokenizer(file);
        tokenizer->decode(tokenizer->encode("abc <s>"));
      } catch (const Error&) {
      }
    load_pretrained<float>(file);
  } catch (const Error&) {
  }
  return 0;
}
