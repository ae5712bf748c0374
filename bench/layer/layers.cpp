// Layers and blocks of the paper's base model at inference, their weights packed ahead.
#include "../support/machine.hpp"
#include "eigenformer/block/decoder_block.hpp"
#include "eigenformer/block/encoder_block.hpp"
#include "eigenformer/core/initialize.hpp"
#include "eigenformer/layer/ffn/gated_mlp.hpp"
#include "eigenformer/op/weight.hpp"

namespace eigenformer::bench {
namespace {

constexpr Index width = 512, hidden = 2048, gated = 1408;

/// FLOPs of products and attention alone, on B sequences of N tokens.
struct Work {
  double batch, tokens;

  double products(double count, Index in, Index out) const {
    return count * 2 * batch * tokens * static_cast<double>(in * out);
  }
  double mixing() const {
    return 4 * batch * tokens * tokens * static_cast<double>(width);
  }  // scores, then the mix of values
  double attention() const { return products(4, width, width) + mixing(); }
  double mlp() const { return products(2, width, hidden); }
  double swiglu() const { return products(3, width, gated); }
  double encoder_block() const { return attention() + mlp(); }
  double decoder_block() const { return 2 * attention() - mixing() / 2 + mlp(); }  // a causal mask leaves half
};

/// run(layer, ctx, x) is timed.
template <class Layer, class Config, class Run>
void add_layer(const std::string& name, const Config& config, double (Work::*flops)() const, Run run) {
  for (const int threads : {1, 2})
    for (const auto& size : {std::pair<Index, Index>{8, 128}, {1, 512}, {32, 10}}) {
      const Index batch = size.first, tokens = size.second;
      const std::string full = name + "/base/B:" + std::to_string(batch) + "/N:" + std::to_string(tokens);
      add(on_threads(full, threads), [=](benchmark::State& state) {
        Context ctx{Threads(threads)};
        Layer layer(config);
        initialize(layer, 1);
        pack(ctx, layer);
        const auto x = normal(Shape{batch, tokens, width});
        const Work work{static_cast<double>(batch), static_cast<double>(tokens)};
        const auto call = [&] {
          ctx.reset();
          benchmark::DoNotOptimize(run(layer, ctx, x.view()).data());
        };
        settle(ctx, call);
        run_flops(state, (work.*flops)(), threads, call);
      });
    }
}

const int registered = [] {
  const auto call = [](const auto& layer, Context& ctx, ConstView<float, 3> x) { return layer(ctx, x); };
  const auto with_memory = [](const auto& layer, Context& ctx, ConstView<float, 3> x) { return layer(ctx, x, x); };
  add_layer<Attention<float>>("attention", AttentionConfig{.width = width, .heads = 8}, &Work::attention, call);
  add_layer<Mlp<float>>("mlp", MlpConfig{.width = width, .hidden = hidden}, &Work::mlp, call);
  add_layer<SwiGlu<float>>("swiglu", GatedMlpConfig{.width = width, .hidden = gated}, &Work::swiglu, call);
  add_layer<EncoderBlock<>>("encoder_block", EncoderBlock<>::Config{.width = width, .hidden = hidden},
                            &Work::encoder_block, call);
  add_layer<DecoderBlock<>>("decoder_block", DecoderBlock<>::Config{.width = width, .hidden = hidden},
                            &Work::decoder_block, with_memory);
  return 0;
}();

}  // namespace
}  // namespace eigenformer::bench
