// Attention of 8 heads, forward and backward. A backward pass counts as 2.5 forward ones, causal as half, a window as
// what it sees.
#include "eigenformer/kernel/attention.hpp"

#include <cmath>

#include "../support/machine.hpp"
#include "eigenformer/core/arena.hpp"

namespace eigenformer::bench {
namespace {

constexpr Index heads = 8, window = 256;

struct Problem {
  Tensor<float, 4> query, key, value, slope, output, dquery, dkey, dvalue;
  Tensor<kernel::AttentionRow<float>, 3> rows;
  kernel::AttentionInputs<float> in;
  Threads pool;
  Arena arena;

  Problem(Index head_width, Index tokens, int threads, Mask mask, kernel::Dropout dropout)
      : query(normal(Shape{Index{1}, tokens, heads, head_width}, 1)), key(normal(query.shape(), 2)),
        value(normal(query.shape(), 3)), slope(normal(query.shape(), 4)), output(query.shape()), dquery(query.shape()),
        dkey(query.shape()), dvalue(query.shape()),
        rows(Shape{Index{1}, heads, tokens}), in{query, key,    value, 1 / std::sqrt(static_cast<float>(head_width)),
                                                 mask,  dropout},
        pool(threads) {}

  void forward(const auto& score) { kernel::attention_forward<float>(pool, arena, in, output, rows, score); }
  void backward(const auto& score) {
    kernel::attention_backward<float>(pool, arena, in, output, rows, slope, {dquery, false}, {dkey, false},
                                      {dvalue, false}, score);
  }
};

/// Query-key pairs that the mask lets through.
double pairs(const Mask& mask, Index tokens) {
  double sum = 0;
  for (Index i = 0; i < tokens; ++i) {
    const auto range = mask.range(0, i, tokens, tokens);
    sum += static_cast<double>(range.end - range.begin);
  }
  return mask.causal && mask.window == 0 ? static_cast<double>(tokens * tokens) / 2 : sum;
}

template <class MakeScore>
void add_attention(const std::string& name, bool backward, Mask mask, double dropout, MakeScore make_score) {
  for (const int threads : {1, 2})
    for (const Index head_width : {64, 128})
      for (const Index tokens : {128, 512, 1024, 2048, 4096}) {
        const std::string full = (backward ? "attention_backward" : "attention_forward") + name +
                                 "/E:" + std::to_string(head_width) + "/N:" + std::to_string(tokens);
        add(on_threads(full, threads), [=](benchmark::State& state) {
          Random random{1};
          Problem problem(head_width, tokens, threads, mask,
                          dropout > 0 ? kernel::Dropout{RandomSite(random), dropout} : kernel::Dropout{});
          const auto score = make_score(tokens);
          problem.forward(score.get());
          const double flops = (backward ? 2.5 : 1) * 4 * static_cast<double>(heads * head_width) * pairs(mask, tokens);
          run_flops(state, flops, threads, [&] {
            if (backward) problem.backward(score.get());
            else problem.forward(score.get());
          });
        });
      }
}

struct Plain {
  kernel::PlainScore get() const { return {}; }
};
struct Alibi {
  Tensor<float, 1> slopes = normal(Shape{heads});
  kernel::AlibiScore<float> get() const { return {slopes}; }
};
struct T5 {
  Tensor<float, 4> bias;
  mutable Tensor<float, 4> gradient{bias.shape()};
  bool learned;
  kernel::DistanceScore<float> get() const {
    return {bias, bias.extent(3) / 2, {learned ? gradient.view() : View<float, 4>(), true}};
  }
};
struct Additive {
  Tensor<float, 4> bias;
  mutable Tensor<float, 4> gradient{bias.shape()};
  bool learned;
  kernel::BiasScore<float> get() const { return {bias, {learned ? gradient.view() : View<float, 4>(), true}}; }
};
struct Capped {
  kernel::CappedScore<float> get() const { return {20}; }
};

const int registered = [] {
  const auto plain = [](Index) { return Plain{}; };
  const auto alibi = [](Index) { return Alibi{}; };
  const auto t5 = [](bool learned) {
    return [=](Index n) { return T5{.bias = normal(Shape{Index{1}, heads, Index{1}, 2 * n - 1}), .learned = learned}; };
  };
  const auto additive = [](bool learned) {
    return [=](Index n) { return Additive{.bias = normal(Shape{Index{1}, Index{1}, n, n}), .learned = learned}; };
  };
  const auto capped = [](Index) { return Capped{}; };
  add_attention("", false, {}, 0, plain);
  add_attention("_causal", false, {.causal = true}, 0, plain);
  add_attention("_alibi", false, {}, 0, alibi);
  add_attention("_t5", false, {}, 0, t5(false));
  add_attention("_mask", false, {}, 0, additive(false));
  add_attention("_window", false, {.causal = true, .window = window}, 0, plain);
  add_attention("_capped", false, {}, 0, capped);
  add_attention("_dropout", false, {}, 0.1, plain);
  add_attention("", true, {}, 0, plain);
  add_attention("_causal", true, {.causal = true}, 0, plain);
  add_attention("_t5", true, {}, 0, t5(true));
  add_attention("_dropout", true, {}, 0.1, plain);
  add_attention("_capped", true, {}, 0, capped);
  return 0;
}();

}  // namespace
}  // namespace eigenformer::bench
