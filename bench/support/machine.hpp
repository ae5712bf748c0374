// What this machine can do at most, measured in this process, and rates as fractions of it.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "eigenformer/core/context.hpp"
#include "eigenformer/core/random.hpp"
#include "eigenformer/core/tensor.hpp"
#include "eigenformer/core/threads.hpp"
#include "eigenformer/kernel/simd.hpp"

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

/// Bytes read per second from memory that no cache holds.
inline double read_bandwidth(int threads) {
  using V = kernel::Vec<float>;
  constexpr Index count = Index{1} << 26, piece = Index{1} << 18;  // 256 MiB
  static const Tensor<float, 1> memory(Shape{count});
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
  const Tensor<float, 1> from(Shape{count});
  Tensor<float, 1> to(Shape{count});
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

/// Runs the case between two measurements of the peak; counters gflops and of_peak for so many floating-point
/// operations.
template <class F>
void run_flops(benchmark::State& state, double flops, int threads, F&& f) {
  const double before = peak_flops(threads), seconds = run(state, f), after = peak_flops(threads);
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
