// Products with a weight, by M rows: packed ahead, with what follows at their end, packed per call, the two
// derivatives; and whole feed-forward networks.
#include "../support/machine.hpp"
#include "eigenformer/core/arena.hpp"
#include "eigenformer/kernel/feed_forward.hpp"
#include "eigenformer/kernel/gemm.hpp"
#include "eigenformer/kernel/word_product.hpp"

namespace eigenformer::bench {
namespace {

std::string sized(const std::string& name, Index in, Index out, Index rows, int threads) {
  return on_threads(name + "/" + std::to_string(in) + "x" + std::to_string(out) + "/M:" + std::to_string(rows),
                    threads);
}

/// work(pool, arena, x, weight, bias) prepares and returns what is to be timed.
template <class Work>
void add_product(const std::string& name, Index in, Index out, Index rows, int threads, Work work) {
  add(sized(name, in, out, rows, threads), [=](benchmark::State& state) {
    const Threads pool(threads);
    Arena arena;
    const auto x = normal(Shape{rows, in}), weight = normal(Shape{out, in});
    const auto bias = normal(Shape{out});
    work([&](auto&& f) { run_flops(state, 2.0 * static_cast<double>(rows * in * out), threads, f); }, pool, arena, x,
         weight, bias);
  });
}

kernel::Operand<float> operand(ConstView<float, 2> weight) { return kernel::Operand<float>::transposed(weight); }
kernel::Operand<float> packed(const Threads& pool, Arena& arena, ConstView<float, 2> weight) {
  return kernel::pack(pool, operand(weight),
                      arena.allocate<float>(kernel::Operand<float>::size(weight.extent(1), weight.extent(0))));
}

/// A weight (Out, In) in a format below 32 bits, in groups of 32 inputs in int4.
struct InFormat {
  kernel::PackedWords words;
  Tensor<std::uint32_t, 1> memory;

  InFormat(const Threads& pool, ConstView<float, 2> weight, Format format, Index group)
      : words{.format = format, .depth = weight.extent(1), .width = weight.extent(0), .group = group} {
    if (words.is_whole()) words.unit = kernel::scale_unit(6, format);
    memory = Tensor<std::uint32_t, 1>(Shape{static_cast<Index>(words.bytes() / sizeof(std::uint32_t))});
    auto* const bytes = reinterpret_cast<std::byte*>(memory.data());
    kernel::quantize(pool, weight, words, nullptr, bytes);
    words = words.at(bytes);
  }
};
struct FormatCase {
  Format format;
  Index group;
  std::string name;
};
const FormatCase formats[] = {{Format::f16, 0, "f16"},
                              {Format::bf16, 0, "bf16"},
                              {Format::int8, 0, "int8"},
                              {Format::int8, 32, "int8_groups"},
                              {Format::int4, 32, "int4"}};

void add_linear(Index in, Index out, int threads) {
  for (const auto& [format, group, name] : formats)
    for (const Index rows : {8, 64, 256, 1024})
      add(sized("linear_packed_" + name, in, out, rows, threads), [=, format = format,
                                                                   group = group](benchmark::State& state) {
        const Threads pool(threads);
        Arena arena;
        const auto x = normal(Shape{rows, in}), weight = normal(Shape{out, in});
        const auto bias = normal(Shape{out});
        const InFormat w(pool, weight, format, group);
        Tensor<float, 2> y(Shape{rows, out});
        const auto run_once = [&] {
          kernel::multiply_words(pool, arena, x.view(), w.words, y.view(), false, kernel::AddBias<float>{bias.data()});
        };
        run_once();
        run_flops(state, 2.0 * static_cast<double>(rows * in * out), threads, run_once, format);
      });
  for (const Index rows : {8, 64, 256, 1024}) {
    add_product("linear_packed", in, out, rows, threads,
                [](auto&& timed, auto& pool, auto& arena, auto& x, auto& weight, auto& bias) {
                  const auto w = packed(pool, arena, weight);
                  Tensor<float, 2> y(Shape{x.extent(0), weight.extent(0)});
                  timed([&] { kernel::linear_forward<float>(pool, arena, x, w, bias, y); });
                });
    add_product("linear_epilogue_gelu", in, out, rows, threads,
                [](auto&& timed, auto& pool, auto& arena, auto& x, auto& weight, auto& bias) {
                  const auto w = packed(pool, arena, weight);
                  Tensor<float, 2> y(Shape{x.extent(0), weight.extent(0)});
                  timed([&] {
                    kernel::linear_forward_then<float>(pool, arena, x, w, y,
                                                       kernel::ActivatedBias<Gelu, float>{bias.data()});
                  });
                });
  }
  for (const Index rows : {256, 1024}) {
    add_product("linear_per_call", in, out, rows, threads,
                [](auto&& timed, auto& pool, auto& arena, auto& x, auto& weight, auto& bias) {
                  Tensor<float, 2> y(Shape{x.extent(0), weight.extent(0)});
                  timed([&] { kernel::linear_forward<float>(pool, arena, x, operand(weight), bias, y); });
                });
    add_product("linear_backward_input", in, out, rows, threads,
                [](auto&& timed, auto& pool, auto& arena, auto& x, auto& weight, auto&) {
                  const auto dy = normal(Shape{x.extent(0), weight.extent(0)});
                  Tensor<float, 2> dx(x.shape());
                  timed([&] { kernel::linear_backward_input<float>(pool, arena, dy, weight, {dx, false}); });
                });
    add_product(
        "linear_backward_weight", in, out, rows, threads,
        [](auto&& timed, auto& pool, auto& arena, auto& x, auto& weight, auto& bias) {
          const auto dy = normal(Shape{x.extent(0), weight.extent(0)});
          Tensor<float, 2> dweight(weight.shape());
          Tensor<float, 1> dbias(bias.shape());
          timed([&] { kernel::linear_backward_weight<float>(pool, arena, dy, x, {dweight, false}, {dbias, false}); });
        });
  }
}

template <class Run>
void add_feed_forward(const std::string& name, Index width, Index hidden, Index rows, int threads, double products,
                      Run run) {
  add(sized(name, width, hidden, rows, threads), [=](benchmark::State& state) {
    const Threads pool(threads);
    Arena arena;
    const auto x = normal(Shape{rows, width}), gate = normal(Shape{hidden, width}, 2),
               up = normal(Shape{hidden, width}, 3), down = normal(Shape{width, hidden}, 4);
    const auto up_bias = normal(Shape{hidden}), down_bias = normal(Shape{width});
    Tensor<float, 2> y(x.shape());
    const kernel::WeightAndBias<float> g{packed(pool, arena, gate)}, u{packed(pool, arena, up), up_bias},
        d{packed(pool, arena, down), down_bias};
    run_flops(state, products * 2.0 * static_cast<double>(rows * width * hidden), threads,
              [&] { run(pool, arena, x, g, u, d, y); });
  });
}

const int registered = [] {
  for (const int threads : {1, 2}) {
    for (const auto& [in, out] :
         {std::pair<Index, Index>{512, 512}, {512, 2048}, {2048, 512}, {1024, 4096}, {4096, 1024}})
      add_linear(in, out, threads);
    for (const Index rows : {64, 256, 1024}) {
      add_feed_forward("ffn", 512, 2048, rows, threads, 2,
                       [](auto& pool, auto& arena, auto& x, auto&, auto& up, auto& down, auto& y) {
                         kernel::mlp_forward<Relu, float>(pool, arena, x, up, down, {}, y);
                       });
      add_feed_forward("ffn_gelu", 512, 2048, rows, threads, 2,
                       [](auto& pool, auto& arena, auto& x, auto&, auto& up, auto& down, auto& y) {
                         kernel::mlp_forward<Gelu, float>(pool, arena, x, up, down, {}, y);
                       });
      add_feed_forward("ffn_swiglu", 512, 1408, rows, threads, 3,
                       [](auto& pool, auto& arena, auto& x, auto& gate, auto& up, auto& down, auto& y) {
                         kernel::gated_mlp_forward<Silu, float>(pool, arena, x, gate, up, down, {}, {}, y);
                       });
    }
    for (const auto& [format, group, name] : formats)
      add(on_threads("linear_row_" + name + "/4096x16384", threads),
          [=, format = format, group = group](benchmark::State& state) {
            const Threads pool(threads);
            Arena arena;
            const auto x = normal(Shape{1, 4096}), weight = normal(Shape{16384, 4096});
            const InFormat w(pool, weight, format, group);
            Tensor<float, 2> y(Shape{1, 16384});
            run_bytes(
                state, static_cast<double>(w.words.bytes()), [&] { return read_bandwidth(threads); },
                [&] { kernel::multiply_words(pool, arena, x.view(), w.words, y.view(), false); });
          });
    for (const bool plain : {false, true})
      add(on_threads(plain ? "linear_row_plain/4096x16384" : "linear_row/4096x16384", threads),
          [=](benchmark::State& state) {
            const Threads pool(threads);
            Arena arena;
            const auto x = normal(Shape{1, 4096}), weight = normal(Shape{16384, 4096});
            const auto w = plain ? operand(weight) : packed(pool, arena, weight);
            Tensor<float, 2> y(Shape{1, 16384});
            run_bytes(
                state, 4096.0 * 16384 * sizeof(float), [&] { return read_bandwidth(threads); },
                [&] { kernel::linear_forward<float>(pool, arena, x, w, ConstView<float, 1>(), y); });
          });
  }
  return 0;
}();

}  // namespace
}  // namespace eigenformer::bench
