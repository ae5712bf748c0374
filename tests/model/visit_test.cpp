// What a constructor allocates is what visit lists, tensor by tensor.
#include <cstdlib>
#include <map>
#include <new>

#include "eigenformer/block/pre_norm.hpp"
#include "eigenformer/model/encoder_decoder.hpp"
#include "support/tensors.hpp"

namespace {

using Allocations = std::map<void*, std::size_t>;  // address to bytes
Allocations* watching = nullptr;

}  // namespace

// All tensors, and nothing else here, ask for memory by alignment.
void* operator new(std::size_t bytes, std::align_val_t at) {
  const auto boundary = static_cast<std::size_t>(at);
  void* const memory = std::aligned_alloc(boundary, (bytes + boundary - 1) / boundary * boundary);
  if (!memory) throw std::bad_alloc();
  if (watching) (*watching)[memory] = bytes;
  return memory;
}
void operator delete(void* memory, std::align_val_t) noexcept {
  if (watching) watching->erase(memory);
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t at) noexcept { operator delete(memory, at); }

namespace eigenformer::test {
namespace {

template <class Model, class Config>
void expect_complete(const Config& config) {
  Allocations allocations;
  watching = &allocations;
  Model model(config);
  watching = nullptr;
  EXPECT_FALSE(allocations.empty());
  walk(
      [&](const std::string& path, const Leaf&, auto& tensor) {
        const auto found = allocations.find(tensor.data());
        ASSERT_NE(found, allocations.end()) << path << " is listed twice, or not the model's";
        EXPECT_EQ(found->second, static_cast<std::size_t>(tensor.size()) * sizeof(*tensor.data())) << path;
        allocations.erase(found);
      },
      model);
  EXPECT_EQ(allocations.size(), 0u) << "tensors that visit does not list";
}

template <class Residual>
void expect_complete_arrangement() {
  const EncoderBlock<>::Config block{.width = 6, .hidden = 9, .heads = 2};
  const DecoderBlock<>::Config decoder_block{.width = 6, .hidden = 9, .heads = 2};
  expect_complete<Residual>(PreNorm<>::Config{6});
  expect_complete<EncoderBlock<Residual>>(block);
  expect_complete<DecoderBlock<Residual>>(decoder_block);
  for (const bool final_norm : {false, true}) {
    expect_complete<Encoder<Residual>>(Encoder<>::Config{2, block, final_norm});
    expect_complete<Decoder<Residual>>(Decoder<>::Config{2, decoder_block, final_norm});
  }
  for (const Sharing sharing : {Sharing::none, Sharing::target_and_output, Sharing::all})
    expect_complete<EncoderDecoder<Residual>>(EncoderDecoder<>::Config{.source_vocabulary = 5,
                                                                       .target_vocabulary = 5,
                                                                       .encoder_layers = 2,
                                                                       .decoder_layers = 2,
                                                                       .block = block,
                                                                       .sharing = sharing});
}

TEST(Visit, ListsAllTensorsOfLayers) {
  expect_complete<Linear<float>>(LinearConfig{3, 4});
  expect_complete<Linear<float>>(LinearConfig{3, 4, false});
  expect_complete<Embedding<float>>(EmbeddingConfig{5, 6});
  expect_complete<LayerNorm<float>>(LayerNormConfig{6});
  expect_complete<Attention<float>>(AttentionConfig{.width = 6, .heads = 2});
  expect_complete<Attention<float>>(AttentionConfig{.width = 6, .heads = 2, .kv_heads = 1, .bias = false});
  expect_complete<Mlp<float>>(MlpConfig{6, 9});
}

TEST(Visit, ListsAllTensorsOfBlocksAndModels) {
  expect_complete_arrangement<PreNorm<float>>();
  expect_complete_arrangement<PostNorm<double>>();
}

TEST(Visit, NamesThemByTheirPlace) {
  const EncoderDecoder<PreNorm<float>> model(EncoderDecoder<>::Config{.source_vocabulary = 5,
                                                                      .target_vocabulary = 5,
                                                                      .encoder_layers = 1,
                                                                      .decoder_layers = 1,
                                                                      .block = {.width = 4, .hidden = 8, .heads = 2},
                                                                      .sharing = Sharing::none});
  std::vector<std::string> expected{"embedding.weight", "target_embedding.weight"};
  const auto add = [&](const std::string& prefix, std::initializer_list<const char*> parts) {
    for (const char* const part : parts)
      for (const char* const kind : {".weight", ".bias"}) expected.push_back(prefix + part + kind);
  };
  const std::string encoder = "encoder.blocks.0.", decoder = "decoder.blocks.0.";
  add(encoder + "attention.", {"query", "key", "value", "output"});
  add(encoder, {"attention_residual.norm", "feed_forward.up", "feed_forward.down", "feed_forward_residual.norm"});
  add("encoder.", {"norm"});
  add(decoder + "self_attention.", {"query", "key", "value", "output"});
  add(decoder, {"self_attention_residual.norm"});
  add(decoder + "cross_attention.", {"query", "key", "value", "output"});
  add(decoder, {"cross_attention_residual.norm", "feed_forward.up", "feed_forward.down", "feed_forward_residual.norm"});
  add("decoder.", {"norm"});
  expected.push_back("head.weight");

  std::vector<std::string> names;
  walk([&](const std::string& path, const Leaf&, const auto&) { names.push_back(path); }, model);
  EXPECT_EQ(names, expected);
}

}  // namespace
}  // namespace eigenformer::test
