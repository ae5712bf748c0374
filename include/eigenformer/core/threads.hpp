// Threads: a handle to a thread pool, or to none, and parallel_for over it.
#pragma once

#include <Eigen/Core>
#if __has_include(<Eigen/ThreadPool>)
#include <Eigen/ThreadPool>
#else
#include <unsupported/Eigen/CXX11/ThreadPool>
#endif

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>

#include "eigenformer/core/denormals.hpp"
#include "eigenformer/core/error.hpp"
#include "eigenformer/core/scalar.hpp"

namespace eigenformer {

/// A cheap handle (copies share the pool). The caller of parallel_for works too, so n threads are n−1 workers and it.
class Threads {
 public:
  /// Serial.
  Threads() = default;

  /// Our own pool; `count` ≥ 1 threads, 0 for as many as the machine has.
  explicit Threads(int count) {
    require(count >= 0, "threads", "cannot run on ", count, " threads");
    if (count == 0) count = (std::max)(1, static_cast<int>(std::thread::hardware_concurrency()));
    if (count > 1) pool_ = std::make_shared<Eigen::ThreadPool>(count - 1);
  }

  /// The user's pool, which must outlive every copy of this handle.
  explicit Threads(Eigen::ThreadPoolInterface& pool) : pool_(&pool, [](auto*) {}) {}

  /// How many threads work at most, the caller included.
  int count() const { return pool_ ? pool_->NumThreads() + 1 : 1; }

  /// Calls f(begin, end) for [0, n) cut into pieces of `grain` (the last may be shorter), in any order, on any thread,
  /// and returns when all are done. Where the cuts lie depends on n and grain alone. From inside a worker, or when
  /// there is one piece, everything runs on the caller. The first exception thrown by f is rethrown here.
  /// If f takes a third argument it gets the slot of its thread, in [0, count()): an index into per-thread scratch.
  template <class F>
  void parallel_for(Index n, Index grain, F&& f) const {
    if (n <= 0) return;
    grain = std::clamp(grain, Index{1}, n);
    const auto piece = [&](Index i, int slot) {
      const Index begin = i * grain, end = (std::min)(begin + grain, n);
      if constexpr (std::is_invocable_v<F&, Index, Index, int>) f(begin, end, slot);
      else f(begin, end);
    };
    run((n + grain - 1) / grain, &piece, [](const void* work, Index i, int slot) { (*static_cast<decltype(&piece)>(work))(i, slot); });
  }

 private:
  using Piece = void (*)(const void* work, Index i, int slot);

  struct Job {
    const void* work;
    Piece piece;
    Index pieces;
    std::atomic<Index> next = 0;
    std::atomic<int> slots = 0;
    std::mutex mutex{};
    std::exception_ptr error{};
    std::uint64_t float_mode = detail::float_mode();  // of the caller, for all

    void run() {
      const int slot = slots.fetch_add(1, std::memory_order_relaxed);
      try {
        for (Index i; (i = next.fetch_add(1, std::memory_order_relaxed)) < pieces;) piece(work, i, slot);
      } catch (...) {
        next = pieces;
        const std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
      }
    }
  };

  void run(Index pieces, const void* work, Piece piece) const {
    if (pieces == 1 || !pool_ || pool_->CurrentThreadId() >= 0) {
      for (Index i = 0; i < pieces; ++i) piece(work, i, 0);
      return;
    }
    Job job{.work = work, .piece = piece, .pieces = pieces};
    const auto helpers = static_cast<unsigned>((std::min)(static_cast<Index>(pool_->NumThreads()), pieces - 1));
    Eigen::Barrier finished(helpers);
    for (unsigned i = 0; i < helpers; ++i)
      pool_->Schedule([&job, &finished] {
        const std::uint64_t own = detail::float_mode();
        detail::set_float_mode(job.float_mode);
        job.run();
        detail::set_float_mode(own);
        finished.Notify();
      });
    job.run();
    finished.Wait();
    if (job.error) std::rethrow_exception(job.error);
  }

  std::shared_ptr<Eigen::ThreadPoolInterface> pool_;
};

}  // namespace eigenformer
