// Attention of 8 heads, forward and backward. A backward pass counts as 2.5 forward ones, causal as half.
#include "../support/machine.hpp"
#include "eigenformer/core/arena.hpp"
#include "eigenformer/kernel/attention.hpp"

namespace eigenformer::bench {
namespace {

template <class Run>
void add_attention(const std::string& name, Index head_width, Index tokens, int threads, bool causal, double passes, Run run) {
  add(on_threads(name + "/E:" + std::to_string(head_width) + "/N:" + std::to_string(tokens), threads), [=](benchmark::State& state) {
    const double peak = peak_flops(threads);
    benchmark::DoNotOptimize(peak);
    constexpr Index heads = 8;
    const Shape<4> shape{1, tokens, heads, head_width};
    const auto query = normal(shape, 1), key = normal(shape, 2), value = normal(shape, 3);
    const kernel::AttentionInputs<float> in{query, key, value, 1 / std::sqrt(static_cast<float>(head_width)), Mask{.causal = causal}, {}};
    const Threads pool(threads);
    Arena arena;
    Tensor<float, 4> output(shape);
    Tensor<float, 3> log_sum_exp(Shape{1, heads, tokens});
    const double seconds = run(state, pool, arena, in, output, log_sum_exp);
    report_flops(state, passes * 4.0 * static_cast<double>(heads * tokens * tokens * head_width) * (causal ? 0.5 : 1), seconds, threads);
  });
}

const int registered = [] {
  for (const int threads : {1, 2})
    for (const Index head_width : {64, 128})
      for (const Index tokens : {128, 512, 1024, 2048, 4096})
        for (const bool causal : {false, true}) {
          const std::string suffix = causal ? "_causal" : "";
          add_attention("attention_forward" + suffix, head_width, tokens, threads, causal, 1,
                        [](auto& state, auto& pool, auto& arena, auto& in, auto& output, auto& log_sum_exp) {
                          return bench::run(state, [&] {
                            arena.reset();
                            kernel::attention_forward<float>(pool, arena, in, output, log_sum_exp);
                          });
                        });
          add_attention("attention_backward" + suffix, head_width, tokens, threads, causal, 2.5,
                        [](auto& state, auto& pool, auto& arena, auto& in, auto& output, auto& log_sum_exp) {
                          kernel::attention_forward<float>(pool, arena, in, output, log_sum_exp);
                          const auto slope = normal(output.shape(), 4);
                          Tensor<float, 4> dquery(output.shape()), dkey(output.shape()), dvalue(output.shape());
                          return bench::run(state, [&] {
                            arena.reset();
                            kernel::attention_backward<float>(pool, arena, in, output, log_sum_exp, slope, {dquery, false}, {dkey, false},
                                                              {dvalue, false});
                          });
                        });
        }
  return 0;
}();

}  // namespace
}  // namespace eigenformer::bench
