// Checkpoints of llama2.c (github.com/karpathy/llama2.c), version 0: seven little-endian 32-bit integers (width, hidden
// width, layers, heads, key-value heads, vocabulary, max_positions), then F32, each matrix for all layers: embedding,
// attention norms, Wq, Wk, Wv, Wo, feed-forward norms, W1, W2, W3, final norm, two tables of rotary positions that are
// not needed. A negative vocabulary says that an output projection follows.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <istream>
#include <string>
#include <utility>
#include <vector>

#include "eigenformer/core/open_file.hpp"
#include "eigenformer/model/decoders.hpp"
#include "eigenformer/pretrained/pretrained.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

namespace detail {

/// Reads F32 after checking that there are so many.
class Llama2cFile {
 public:
  Llama2cFile(std::istream& stream, const std::string& name) : stream_(stream), name_(name) {
    stream_.seekg(0, std::ios::end);
    const std::streamoff end = stream_.tellg();
    stream_.seekg(0);
    validate(stream_.good() && end >= 0, "cannot be read");
    validate(end >= 28 && end % 4 == 0, "the file has ", end, " bytes, which is no header of 28 and numbers of 4");
    left_ = static_cast<Index>(end) / 4 - 7;
    stream_.read(reinterpret_cast<char*>(header_), sizeof header_);
    validate(stream_.good(), "cannot be read");
  }

  Index header(int i) const { return header_[i]; }

  /// Counts layers × rows × width numbers, all positive, as part of the file.
  void expect(const char* what, Index layers, Index rows, Index width) {
    // Each is below 2³¹: the product of two does not overflow.
    validate(rows <= left_ / width && layers <= left_ / (rows * width), "is too short for ", what, " of ", layers,
             " × (", rows, ", ", width, ") numbers");
    left_ -= layers * rows * width;
  }
  Index left() const { return left_; }

  template <class T>
  void read(View<T, 1> to) {
    std::vector<float> chunk(static_cast<std::size_t>((std::min)(to.size(), Index{1} << 14)));
    for (Index done = 0; done < to.size();) {
      const Index now = (std::min)(to.size() - done, static_cast<Index>(chunk.size()));
      stream_.read(reinterpret_cast<char*>(chunk.data()), static_cast<std::streamsize>(now) * 4);
      validate(stream_.good(), "cannot be read, or was cut off while being read");
      std::copy_n(chunk.data(), now, to.data() + done);
      done += now;
    }
  }
  void skip(Index numbers) { stream_.seekg(numbers * 4, std::ios::cur); }

  template <class... Parts>
  void validate(bool holds, const Parts&... parts) const {
    ensure(holds, "llama2c", name_, ": ", parts...);
  }

 private:
  std::istream& stream_;
  const std::string& name_;
  std::int32_t header_[7] = {};
  Index left_ = 0;
};

}  // namespace detail

/// Rotary pairs are interleaved. Sequences begin with token 1; another 1, or 2, ends them. Throws if the file's length
/// is not exactly what its header says, before anything of that size is allocated.
template <Real T = float>
Pretrained<Llama<T>> load_llama2c(std::istream& stream, const std::string& name = "stream") {
  detail::Llama2cFile file(stream, name);
  const char* const names[] = {
      "width",      "hidden width", "number of layers", "number of heads", "number of key-value heads",
      "vocabulary", "max_positions"};
  for (int i = 0; i < 7; ++i)
    file.validate(file.header(i) > 0 || (i == 5 && file.header(i) < 0), names[i], " ", file.header(i),
                  " is invalid: must be above 0");
  const Index width = file.header(0), hidden = file.header(1), layers = file.header(2), heads = file.header(3),
              kv_heads = file.header(4), max_positions = file.header(6);
  const bool tied = file.header(5) > 0;
  const Index vocabulary = tied ? file.header(5) : -file.header(5);
  file.validate(width % heads == 0 && width / heads % 2 == 0 && heads % kv_heads == 0, heads, " heads with ", kv_heads,
                " key-value heads do not fit width ", width);
  const Index head = width / heads, keys = kv_heads * head;
  file.expect("the embedding", 1, vocabulary, width);
  file.expect("the norms", layers, 2, width);
  for (const Index rows : {width, keys, keys, width}) file.expect("attention", layers, rows, width);
  for (int i = 0; i < 3; ++i) file.expect("feed-forward networks", layers, hidden, width);
  file.expect("the final norm", 1, 1, width);
  file.expect("rotary positions", 1, max_positions, head);
  if (!tied) file.expect("the output projection", 1, vocabulary, width);
  file.validate(file.left() == 0, "is longer than its header says, by ", file.left(), " numbers");

  Llama<T> model({.vocabulary = vocabulary,
                  .max_positions = max_positions,
                  .layers = layers,
                  .block = {.width = width,
                            .hidden = hidden,
                            .heads = heads,
                            .dropout = 0,
                            .attention = {.kv_heads = kv_heads, .bias = false},
                            .residual = {.norm = {.epsilon = 1e-5}}},
                  .position = {.layout = RotaryLayout::interleaved},
                  .tied = tied});
  const auto read = [&](auto& tensor) { file.read(View<T, 1>(tensor.data(), Shape{tensor.size()})); };
  const auto every = [&](auto&& tensor_of) {
    for (auto& block : model.decoder.blocks) read(tensor_of(block));
  };
  read(model.embedding.weight);
  every([](auto& block) -> auto& { return block.attention_residual.norm.weight; });
  every([](auto& block) -> auto& { return block.attention.query.weight; });
  every([](auto& block) -> auto& { return block.attention.key.weight; });
  every([](auto& block) -> auto& { return block.attention.value.weight; });
  every([](auto& block) -> auto& { return block.attention.output.weight; });
  every([](auto& block) -> auto& { return block.feed_forward_residual.norm.weight; });
  every([](auto& block) -> auto& { return block.feed_forward.gate.weight; });
  every([](auto& block) -> auto& { return block.feed_forward.down.weight; });
  every([](auto& block) -> auto& { return block.feed_forward.up.weight; });
  read(model.decoder.norm->weight);
  file.skip(max_positions * head);
  if (!tied) read(model.head->weight);
  return {std::move(model), {.bos = 1, .eos = {1, 2}, .max_positions = max_positions}};
}
template <Real T = float>
Pretrained<Llama<T>> load_llama2c(const std::filesystem::path& path) {
  std::ifstream file = open_file("pretrained", path);
  return load_llama2c<T>(file, path.string());
}

}  // namespace eigenformer
