// Passes over memory, 4096 × 512 floats unless the name says otherwise. of_bandwidth compares with a plain copy that
// moves as many bytes.
#include "../support/machine.hpp"
#include "eigenformer/core/arena.hpp"
#include "eigenformer/kernel/activation.hpp"
#include "eigenformer/kernel/adam.hpp"
#include "eigenformer/kernel/dropout.hpp"
#include "eigenformer/kernel/loss.hpp"
#include "eigenformer/kernel/norm.hpp"
#include "eigenformer/kernel/softmax.hpp"

namespace eigenformer::bench {
namespace {

constexpr Shape<2> shape{4096, 512};

/// Tensors of the shape, in and out.
struct Pass {
  Threads pool;
  Arena arena{};
  Tensor<float, 2> x = normal(shape, 1), z = normal(shape, 2), dy = normal(shape, 3), y{shape}, dx{shape};
  Tensor<float, 1> weight = normal(Shape{shape[1]}, 4), dweight{Shape{shape[1]}}, dbias{Shape{shape[1]}};
  Tensor<kernel::RowStatistics<float>, 1> statistics{Shape{shape[0]}};
};

/// `moved`: how many arrays of the shape are read or written.
template <class F>
void add_pass(const std::string& name, int moved, F f) {
  for (const int threads : {1, 2})
    add(on_threads(name + "/4096x512", threads), [=](benchmark::State& state) {
      Pass pass{.pool = Threads(threads)};
      run_bytes(
          state, static_cast<double>(moved * shape.size()) * sizeof(float),
          [&] { return copy_bandwidth(moved * shape.size() / 2, threads); }, [&] { f(pass); });
    });
}

const int registered = [] {
  using kernel::NormKind;
  add_pass("copy", 2, [](Pass& p) {
    p.pool.parallel_for(shape.size(), 16384, [&](Index begin, Index end) {
      for (Index i = begin; i < end; i += kernel::Vec<float>::lanes)
        kernel::Vec<float>::load(p.x.data() + i).store(p.y.data() + i);
    });
  });
  add_pass("layer_norm", 2, [](Pass& p) {
    kernel::norm_forward<NormKind::layer, float>(p.pool, {p.x}, {p.weight, p.weight}, 1e-5, p.y, p.statistics);
  });
  add_pass("rms_norm", 2, [](Pass& p) {
    kernel::norm_forward<NormKind::rms, float>(p.pool, {p.x}, {p.weight}, 1e-5, p.y, p.statistics);
  });
  add_pass("residual_norm", 3, [](Pass& p) {
    kernel::norm_forward<NormKind::layer, float>(p.pool, {p.x, p.z}, {p.weight, p.weight}, 1e-5, p.y, p.statistics);
  });
  add_pass("layer_norm_backward", 3, [](Pass& p) {
    kernel::norm_backward<NormKind::layer, float>(p.pool, p.arena, p.x, {p.weight, p.weight}, p.statistics, p.dy,
                                                  {p.dx, false}, {p.dweight, false}, {p.dbias, false});
  });
  add_pass("rms_norm_backward", 3, [](Pass& p) {
    kernel::norm_backward<NormKind::rms, float>(p.pool, p.arena, p.x, {p.weight}, p.statistics, p.dy, {p.dx, false},
                                                {p.dweight, false}, {});
  });
  add_pass("softmax", 2, [](Pass& p) { kernel::softmax_forward<float>(p.pool, p.x, p.y); });
  add_pass("relu", 2, [](Pass& p) { kernel::activation_forward<Relu, float>(p.pool, p.x, p.y); });
  add_pass("gelu", 2, [](Pass& p) { kernel::activation_forward<Gelu, float>(p.pool, p.x, p.y); });
  add_pass("gelu_tanh", 2, [](Pass& p) { kernel::activation_forward<GeluTanh, float>(p.pool, p.x, p.y); });
  add_pass("silu", 2, [](Pass& p) { kernel::activation_forward<Silu, float>(p.pool, p.x, p.y); });
  add_pass("gelu_backward", 3, [](Pass& p) {
    kernel::activation_backward<Gelu, float>(p.pool, p.x, p.dy, {p.dx, false});
  });
  add_pass("residual", 3, [](Pass& p) { kernel::dropout_forward<float>(p.pool, p.x, p.z, {}, p.y); });
  add_pass("residual_dropout", 3, [](Pass& p) {
    Random random{1};
    kernel::dropout_forward<float>(p.pool, p.x, p.z, {RandomSite(random), 0.1}, p.y);
  });
  for (const int threads : {1, 2}) {
    add(on_threads("cross_entropy/800x32000", threads), [=](benchmark::State& state) {
      const Threads pool(threads);
      Arena arena;
      const auto logits = normal(Shape{800, 32000});
      Tensor<float, 2> slope(logits.shape());
      Tensor<Id, 1> targets(Shape{800});
      Tensor<kernel::SoftmaxSum<float>, 1> totals(Shape{800});
      // Counted: logits read by each pass, the slope written.
      run_bytes(
          state, 3.0 * static_cast<double>(logits.size()) * sizeof(float),
          [&] { return copy_bandwidth(logits.size(), threads); },
          [&] {
            kernel::cross_entropy_forward<float>(pool, arena, logits, targets, -100, 0.1, totals);
            kernel::cross_entropy_backward<float>(pool, logits, targets, -100, 0.1, totals, 1, {slope, false});
            arena.reset();
          });
    });
    add(on_threads("adam/16777216", threads), [=](benchmark::State& state) {
      const Threads pool(threads);
      constexpr Index count = Index{1} << 24;
      Tensor<float, 1> weight(Shape{count}), first(Shape{count}), second(Shape{count});
      const auto slope = normal(Shape{count});
      const kernel::AdamStep step{.beta1 = 0.9,
                                  .beta2 = 0.98,
                                  .epsilon = 1e-9,
                                  .learning_rate = 1e-3,
                                  .decay = 0,
                                  .gradient_scale = 1,
                                  .correction1 = 0.1,
                                  .correction2 = 0.02};
      run_bytes(
          state, 7.0 * count * sizeof(float), [&] { return copy_bandwidth(count, threads); },
          [&] {
            kernel::adam_step<float>(pool, step, count, weight.data(), slope.data(), first.data(), second.data());
          });
    });
  }
  return 0;
}();

}  // namespace
}  // namespace eigenformer::bench
