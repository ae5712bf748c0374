// Products with a weight, by M rows: packed ahead, packed per call, and the two derivatives.
#include "../support/machine.hpp"
#include "eigenformer/core/arena.hpp"
#include "eigenformer/kernel/gemm.hpp"

namespace eigenformer::bench {
namespace {

std::string sized(const std::string& name, Index in, Index out, Index rows, int threads) {
  return on_threads(name + "/" + std::to_string(in) + "x" + std::to_string(out) + "/M:" + std::to_string(rows), threads);
}

/// work(pool, arena, x, weight, bias) prepares and returns what is to be timed.
template <class Work>
void add_product(const std::string& name, Index in, Index out, Index rows, int threads, Work work) {
  add(sized(name, in, out, rows, threads), [=](benchmark::State& state) {
    const Threads pool(threads);
    Arena arena;
    const auto x = normal(Shape{rows, in}), weight = normal(Shape{out, in});
    const auto bias = normal(Shape{out});
    work([&](auto&& f) { run_flops(state, 2.0 * static_cast<double>(rows * in * out), threads, f); }, pool, arena, x, weight, bias);
  });
}

const int registered = [] {
  for (const int threads : {1, 2})
    for (const auto& [in, out] : {std::pair<Index, Index>{512, 512}, {512, 2048}, {2048, 512}, {1024, 4096}, {4096, 1024}}) {
      for (const Index rows : {8, 64, 256, 1024})
        add_product("linear_packed", in, out, rows, threads, [](auto&& timed, auto& pool, auto& arena, auto& x, auto& weight, auto& bias) {
          const auto panels = kernel::pack_panels_transposed<float>(pool, weight, arena.template allocate<float>(kernel::Panels<float>::size(weight.extent(1), weight.extent(0))));
          Tensor<float, 2> y(Shape{x.extent(0), weight.extent(0)});
          timed([&] { kernel::linear_forward<float>(pool, arena, x, weight, bias, y, panels); });
        });
      for (const Index rows : {256, 1024}) {
        add_product("linear_per_call", in, out, rows, threads, [](auto&& timed, auto& pool, auto& arena, auto& x, auto& weight, auto& bias) {
          Tensor<float, 2> y(Shape{x.extent(0), weight.extent(0)});
          timed([&] {
            kernel::linear_forward<float>(pool, arena, x, weight, bias, y);
          });
        });
        add_product("linear_backward_input", in, out, rows, threads, [](auto&& timed, auto& pool, auto& arena, auto& x, auto& weight, auto&) {
          const auto dy = normal(Shape{x.extent(0), weight.extent(0)});
          Tensor<float, 2> dx(x.shape());
          timed([&] {
            kernel::linear_backward_input<float>(pool, arena, dy, weight, {dx, false});
          });
        });
        add_product("linear_backward_weight", in, out, rows, threads, [](auto&& timed, auto& pool, auto& arena, auto& x, auto& weight, auto& bias) {
          const auto dy = normal(Shape{x.extent(0), weight.extent(0)});
          Tensor<float, 2> dweight(weight.shape());
          Tensor<float, 1> dbias(bias.shape());
          timed([&] {
            kernel::linear_backward_weight<float>(pool, arena, dy, x, {dweight, true}, {dbias, true});
          });
        });
      }
    }
  for (const int threads : {1, 2})
    add(on_threads("linear_row/4096x16384", threads), [=](benchmark::State& state) {
      const Threads pool(threads);
      Arena arena;
      const auto x = normal(Shape{1, 4096}), weight = normal(Shape{16384, 4096});
      const auto panels = kernel::pack_panels_transposed<float>(pool, weight, arena.allocate<float>(kernel::Panels<float>::size(4096, 16384)));
      Tensor<float, 2> y(Shape{1, 16384});
      run_bytes(state, 4096.0 * 16384 * sizeof(float), [&] { return read_bandwidth(threads); },
                [&] { kernel::linear_forward<float>(pool, arena, x, weight, ConstView<float, 1>(), y, panels); });
    });
  return 0;
}();

}  // namespace
}  // namespace eigenformer::bench
