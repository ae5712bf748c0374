// Threads: a handle to a thread pool, or to none, and parallel_for over it.
#pragma once

#include "eigenformer/core/eigen.hpp"
#if __has_include(<Eigen/ThreadPool>)
#include <Eigen/ThreadPool>
#else
#include <unsupported/Eigen/CXX11/ThreadPool>
#endif

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "eigenformer/core/denormals.hpp"
#include "eigenformer/core/error.hpp"
#include "eigenformer/core/scalar.hpp"

namespace eigenformer::inline EIGENFORMER_ABI {

namespace detail {

/// The threads of a pool, all started before it is made: Eigen's constructor waits for ever if the system refuses one
/// of them.
class StartedThreads {
 public:
  struct Task {
    std::function<void()> f;
  };

  class EnvThread {
   public:
    EnvThread() : thread_([this] { wait_and_work(); }) {}
    ~EnvThread() {
      if (given_ == 0) give({});
      thread_.join();
    }
    EnvThread(const EnvThread&) = delete;
    EnvThread& operator=(const EnvThread&) = delete;

    void give(std::function<void()> work) {
      work_ = std::move(work);
      given_ = 1;
      given_.notify_one();
    }
    void OnCancel() {}  // NOLINT(readability-identifier-naming): Eigen calls it

   private:
    void wait_and_work() {
      given_.wait(0);
      if (work_) work_();
    }

    std::function<void()> work_;
    std::atomic<int> given_ = 0;
    std::thread thread_;
  };

  explicit StartedThreads(int count) : idle_(std::make_shared<std::vector<std::unique_ptr<EnvThread>>>()) {
    while (static_cast<int>(idle_->size()) < count) idle_->push_back(std::make_unique<EnvThread>());
  }

  // NOLINTBEGIN(readability-identifier-naming): Eigen calls them
  EnvThread* CreateThread(std::function<void()> work) {
    EnvThread* const thread = idle_->back().release();
    idle_->pop_back();
    thread->give(std::move(work));
    return thread;
  }
  Task CreateTask(std::function<void()> f) { return {std::move(f)}; }
  void ExecuteTask(const Task& task) { task.f(); }
  // NOLINTEND(readability-identifier-naming)

 private:
  std::shared_ptr<std::vector<std::unique_ptr<EnvThread>>> idle_;  // shared by the copies that the pool makes
};

}  // namespace detail

/// A cheap handle (copies share the pool). The caller of parallel_for works too, so n threads are n−1 workers and it.
class Threads {
 public:
  /// Serial.
  Threads() = default;

  /// Our own pool; `count` ≥ 1 threads, 0 for as many as the machine has. Error if the system refuses one of them: then
  /// none is left.
  explicit Threads(int count) {
    ensure(count >= 0 && count <= most, "threads", "cannot run on ", count, " threads: a pool has 1…", most);
    if (count == 0) count = std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, most);
    if (count == 1) return;
    try {
      pool_ = std::make_shared<Eigen::ThreadPoolTempl<detail::StartedThreads>>(count - 1,
                                                                               detail::StartedThreads(count - 1));
    } catch (const std::system_error& refusal) {
      fail("threads", "the system refuses ", count, " threads: ", refusal.what());
    } catch (const std::bad_alloc&) {
      fail("threads", "there is no memory for ", count, " threads");
    }
  }

  /// The user's pool, which must outlive every copy of this handle.
  explicit Threads(Eigen::ThreadPoolInterface& pool) : pool_(&pool, [](auto*) {}) {}

  /// Eigen's pool counts those that wait in 14 bits, of which all ones has a meaning of its own; and the caller is one
  /// more.
  static constexpr int most = (1 << 14) - 1;

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
    run((n + grain - 1) / grain, &piece,
        [](const void* work, Index i, int slot) { (*static_cast<decltype(&piece)>(work))(i, slot); });
  }

 private:
  using Piece = void (*)(const void* work, Index i, int slot);

  struct Job {
    const void* work;
    Piece piece;
    Index pieces;
    std::atomic<Index> next = 0;
    std::atomic<int> taken_slots = 0;
    std::mutex mutex{};
    std::exception_ptr error{};
    std::uint64_t float_mode = detail::float_mode();  // of the caller, for all

    void run() {
      const int slot = taken_slots.fetch_add(1, std::memory_order_relaxed);
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
