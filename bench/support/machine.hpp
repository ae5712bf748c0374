// What this machine can do at most, measured in this process, and rates as fractions of it.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "eigenformer/core/context.hpp"
#include "eigenformer/core/format.hpp"
#include "eigenformer/core/random.hpp"
#include "eigenformer/core/tensor.hpp"
#include "eigenformer/core/threads.hpp"
#include "eigenformer/kernel/dot.hpp"
#include "eigenformer/kernel/simd.hpp"
#include "eigenformer/op/weight.hpp"

#define EIGENFORMER_BENCH_TEXT(name) EIGENFORMER_BENCH_QUOTED(name)
#define EIGENFORMER_BENCH_QUOTED(name) #name

namespace eigenformer::bench {

inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Wall-clock seconds of f().
template <class F>
double time_of(F&& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// The median of several times, in seconds. Cases and what they are compared with are timed alike: the best of one
/// beside the mean of another tells how busy the machine is.
template <class F>
double median_time(int repetitions, F&& f) {
  std::vector<double> times;
  for (int i = 0; i < repetitions; ++i) times.push_back(time_of(f));
  return median(std::move(times));
}

/// float FLOP/s of independent chains of fused multiply-adds in registers, on so many threads at once. Measured on
/// every call, some milliseconds: clocks drift.
inline double peak_flops(int threads) {
  using V = kernel::Vec<float>;
  constexpr int chains = 12, rounds = 100000;
  const Threads pool(threads);
  std::vector<float> sinks(static_cast<std::size_t>(threads));
  const double time = median_time(20, [&] {
    pool.parallel_for(threads, 1, [&](Index begin, Index) {
      V sums[chains], factor(0.999F), term(1e-3F);
      factor.keep(), term.keep();
      kernel::unroll<chains>([&](auto j) EIGENFORMER_INLINE_LAMBDA { sums[j] = V(static_cast<float>(j + 1)); });
      for (int i = 0; i < rounds; ++i)
        kernel::unroll<chains>([&](auto j) EIGENFORMER_INLINE_LAMBDA {
          factor.keep();  // it might be another now: without fused instructions the product is computed each time
          sums[j] = kernel::fma(factor, term, sums[j]);  // in place, as in a tile: clang copies a term that stays
        });
      kernel::unroll<chains - 1>([&](auto j) EIGENFORMER_INLINE_LAMBDA { sums[0] = sums[0] + sums[j + 1]; });
      sinks[static_cast<std::size_t>(begin)] = kernel::sum(sums[0]);
    });
  });
  benchmark::DoNotOptimize(sinks.data());
  return 2.0 * V::lanes * chains * rounds * threads / time;
}

/// Likewise 2 operations for every product of a format: of words of bf16 or of whole numbers; in f16 products are
/// float.
inline double peak_flops(int threads, Format format) {
  using W = kernel::LaneWords<kernel::Vec<float>::lanes>;
  constexpr int chains = 12, rounds = 100000;
  const bool whole = format == Format::int8 || format == Format::int4;
  if (!whole && !(format == Format::bf16 && kernel::has_brain_float_dot)) return peak_flops(threads);
  const Threads pool(threads);
  std::vector<float> sinks(static_cast<std::size_t>(threads));
  const auto timed = [&](auto sum, auto&& add, auto&& value) {
    return median_time(20, [&] {
      pool.parallel_for(threads, 1, [&](Index begin, Index) {
        decltype(sum) sums[chains];
        const W left = W::all(0x3f803f80u + static_cast<std::uint32_t>(begin)), right = W::all(0x3c803c80u);
        kernel::unroll<chains>([&](auto j) EIGENFORMER_INLINE_LAMBDA { sums[j] = sum; });
        for (int i = 0; i < rounds; ++i)
          kernel::unroll<chains>([&](auto j) EIGENFORMER_INLINE_LAMBDA { sums[j] = add(sums[j], right, left); });
        float total = 0;
        for (int j = 0; j < chains; ++j) total += kernel::sum(value(sums[j]));
        sinks[static_cast<std::size_t>(begin)] = total;
      });
    });
  };
  const double time =
      whole ? timed(
                  W::all(0),
                  [](W sums, W right, W left) EIGENFORMER_INLINE_LAMBDA { return W::add_products(sums, right, left); },
                  [](W sums) { return sums.to_float(); })
            : timed(
                  kernel::Vec<float>(0.0F),
                  [](kernel::Vec<float> sums, W right, W left)
                      EIGENFORMER_INLINE_LAMBDA { return kernel::add_brain_float_products(sums, right, left); },
                  [](kernel::Vec<float> sums) { return sums; });
  benchmark::DoNotOptimize(sinks.data());
  return 2.0 * (whole ? 4 : 2) * kernel::Vec<float>::lanes * chains * rounds * threads / time;
}

/// Memory that has been written to: of zeros as they come from the system, all pages may be one.
inline Tensor<float, 1> written(Index count) {
  Tensor<float, 1> memory(Shape{count});
  std::fill_n(memory.data(), count, 1.0F);
  return memory;
}

/// Bytes read per second from memory that no cache holds.
inline double read_bandwidth(int threads) {
  using V = kernel::Vec<float>;
  constexpr Index count = Index{1} << 26, piece = Index{1} << 18;  // 256 MiB
  static const Tensor<float, 1> memory = written(count);
  const Threads pool(threads);
  std::vector<float> sinks(static_cast<std::size_t>(count / piece));
  const double time = median_time(5, [&] {
    pool.parallel_for(count, piece, [&](Index begin, Index end) {
      V sums[8];
      for (V& sum : sums) sum = V(0.0F);
      for (Index i = begin; i < end; i += 8 * V::lanes)
        kernel::unroll<8>(
            [&](auto j) EIGENFORMER_INLINE_LAMBDA { sums[j] = sums[j] + V::load(memory.data() + i + j * V::lanes); });
      for (int j = 1; j < 8; ++j) sums[0] = sums[0] + sums[j];
      sinks[static_cast<std::size_t>(begin / piece)] = kernel::sum(sums[0]);
    });
  });
  benchmark::DoNotOptimize(sinks.data());
  return static_cast<double>(count) * sizeof(float) / time;
}

/// Bytes per second, read and written, of a plain vector copy of `count` floats, from fresh measurement likewise.
inline double copy_bandwidth(Index count, int threads) {
  const Tensor<float, 1> from = written(count);
  Tensor<float, 1> to = written(count);
  const Threads pool(threads);
  const double time = median_time(20, [&] {
    pool.parallel_for(count, 16384, [&](Index begin, Index end) {
      for (Index i = begin; i < end; i += kernel::Vec<float>::lanes)
        kernel::Vec<float>::load(from.data() + i).store(to.data() + i);
    });
    benchmark::DoNotOptimize(to.data());
  });
  return 2.0 * static_cast<double>(count) * sizeof(float) / time;
}

/// Calls f until the context asks the system for no more memory.
template <class F>
void settle(const Context& ctx, F&& f) {
  std::size_t before = 0;
  do {
    before = ctx.arena.capacity();
    f();
  } while (ctx.arena.capacity() != before);
  f();  // what reset() made of it has pages now
}

/// Whom the figures are of: printed above all rows.
inline const int told = [] {
  benchmark::AddCustomContext("instruction_set", EIGENFORMER_BENCH_TEXT(EIGENFORMER_INSTRUCTION_SET));
  benchmark::AddCustomContext("compiler", __VERSION__);
  return 0;
}();

/// Runs the case; returns the median of its times, in seconds.
template <class F>
double run(benchmark::State& state, F&& f) {
  std::vector<double> times;
  for (auto _ : state) times.push_back(time_of(f));
  return median(std::move(times));
}

/// Runs the case between two measurements of the peak, that of a format; counters gflops and of_peak for so many
/// operations.
template <class F>
void run_flops(benchmark::State& state, double flops, int threads, F&& f, Format format = Format::scalar) {
  const double before = peak_flops(threads, format), seconds = run(state, f), after = peak_flops(threads, format);
  state.counters["gflops"] = flops / seconds * 1e-9;
  state.counters["of_peak"] = flops / seconds / ((before + after) / 2);
}

/// Runs the case between two measurements of a bandwidth; counters gbytes and of_bandwidth for so many bytes.
template <class F>
void run_bytes(benchmark::State& state, double bytes, auto&& bandwidth, F&& f) {
  const double before = bandwidth(), seconds = run(state, f), after = bandwidth();
  state.counters["gbytes"] = bytes / seconds * 1e-9;
  state.counters["of_bandwidth"] = bytes / seconds / ((before + after) / 2);
}

/// Registers a case by its full name.
template <class F>
void add(const std::string& name, F&& f) {
  benchmark::RegisterBenchmark(name.c_str(), std::forward<F>(f))->Unit(benchmark::kMicrosecond);
}

inline constexpr Format all_formats[] = {Format::scalar, Format::f16, Format::bf16, Format::int8, Format::int4};
/// Float's rows have no format in their names.
inline std::string named(const std::string& name, Format format) {
  return format == Format::scalar ? name : name + "_" + std::string(format_name(format));
}
/// The model packed in a format, one of each.
template <class Model>
const Model& packed(Format format, const Model& plain) {
  static std::map<Format, Model> models;
  const auto found = models.find(format);
  if (found != models.end()) return found->second;
  Model& made = models.emplace(format, plain).first->second;
  Context ctx;
  pack(ctx, made, {.format = format, .keep_values = format == Format::scalar});
  return made;
}

/// Random normal elements.
template <int Rank>
Tensor<float, Rank> normal(Shape<Rank> shape, std::uint64_t seed = 1) {
  Tensor<float, Rank> tensor(shape);
  RandomSequence random(seed);
  std::generate_n(tensor.data(), tensor.size(), [&] { return static_cast<float>(random.normal()); });
  return tensor;
}

/// Names end in /threads:n.
inline std::string on_threads(const std::string& name, int threads) {
  return name + "/threads:" + std::to_string(threads);
}

}  // namespace eigenformer::bench
