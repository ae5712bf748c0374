#include "eigenformer/core/threads.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <climits>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/error.hpp"
#include "support/sanitizers.hpp"

#if defined(__linux__)
#include <sys/resource.h>
#include <unistd.h>
#endif

using namespace eigenformer;
using test::error_of;

namespace {

using Cuts = std::multiset<std::pair<Index, Index>>;

Cuts cuts(const Threads& threads, Index n, Index grain) {
  Cuts result;
  std::mutex mutex;
  threads.parallel_for(n, grain, [&](Index begin, Index end) {
    const std::lock_guard lock(mutex);
    result.emplace(begin, end);
  });
  return result;
}

}  // namespace

TEST(Threads, CountsTheCaller) {
  EXPECT_EQ(Threads().count(), 1);
  EXPECT_EQ(Threads(1).count(), 1);
  EXPECT_EQ(Threads(3).count(), 3);
  EXPECT_GE(Threads(0).count(), 1);
  EXPECT_EQ(error_of([] { Threads(-2); }), "[threads] cannot run on -2 threads: a pool has 1…16383");
  EXPECT_EQ(error_of([] { Threads{INT_MAX}; }), "[threads] cannot run on 2147483647 threads: a pool has 1…16383");
}

// Memory for stacks runs out before so many threads have begun; those that have are gone afterwards.
TEST(Threads, ThatTheSystemRefusesAreAnError) {
#if !defined(__linux__)
  GTEST_SKIP() << "memory is limited as on Linux";
#else
  if (test::memory_is_sanitized) GTEST_SKIP() << "a sanitizer needs more memory than is allowed here";
  const auto running = [] {
    const std::filesystem::directory_iterator tasks("/proc/self/task");
    return std::distance(begin(tasks), end(tasks));
  };
  const auto before = running();
  rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &old), 0);
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit limited = old;
  limited.rlim_cur = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + (rlim_t{100} << 20);
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limited), 0);
  const std::string error = error_of([] { Threads(500); });
  ASSERT_EQ(setrlimit(RLIMIT_AS, &old), 0);
  EXPECT_NE(error.find("[threads] the system refuses 500 threads: "), std::string::npos) << error;
  for (int i = 0; i < 100000 && running() != before; ++i)
    std::this_thread::yield();  // a joined thread is still listed for a moment
  EXPECT_EQ(running(), before);
  EXPECT_EQ(cuts(Threads(3), 9, 3).size(), 3u) << "and what can be had works";
#endif
}

TEST(Threads, CutsDependOnShapeAlone) {
  EXPECT_EQ(cuts(Threads(), 10, 4), (Cuts{{0, 4}, {4, 8}, {8, 10}}));
  for (const Index n : {0, 1, 4, 5, 8, 1000})
    for (const int count : {2, 3, 5})
      EXPECT_EQ(cuts(Threads(count), n, 4), cuts(Threads(), n, 4)) << n << " on " << count;
}

TEST(Threads, NoWorkNoCall) {
  for (const int count : {1, 3}) {
    EXPECT_TRUE(cuts(Threads(count), 0, 4).empty());
    EXPECT_TRUE(cuts(Threads(count), -5, 4).empty());
  }
}

TEST(Threads, OnePieceRunsOnTheCaller) {
  const auto here = std::this_thread::get_id();
  Threads(3).parallel_for(7, 7, [&](Index begin, Index end) {
    EXPECT_EQ(std::this_thread::get_id(), here);
    EXPECT_EQ(begin, 0);
    EXPECT_EQ(end, 7);
  });
}

TEST(Threads, AGrainBelowOneIsOne) { EXPECT_EQ(cuts(Threads(2), 3, 0), (Cuts{{0, 1}, {1, 2}, {2, 3}})); }

TEST(Threads, AllWorkersTakePart) {
  const Threads threads(3);
  std::atomic<int> arrived = 0;  // every piece waits for the others: only three threads at once get through
  threads.parallel_for(3, 1, [&](Index, Index) {
    ++arrived;
    while (arrived < 3) std::this_thread::yield();
  });
  EXPECT_EQ(arrived, 3);
}

TEST(Threads, ASlotBelongsToOneThread) {
  const Threads threads(3);
  for (int round = 0; round < 50; ++round) {
    std::vector<std::atomic<int>> busy(static_cast<std::size_t>(threads.count()));
    std::atomic<bool> good = true;
    threads.parallel_for(40, 1, [&](Index, Index, int slot) {
      if (slot < 0 || slot >= threads.count()) good = false;
      else if (busy[static_cast<std::size_t>(slot)].fetch_add(1) != 0) good = false;
      std::this_thread::yield();
      if (slot >= 0 && slot < threads.count()) --busy[static_cast<std::size_t>(slot)];
    });
    ASSERT_TRUE(good);
  }
}

TEST(Threads, RethrowsAnException) {
  for (const int count : {1, 3}) {
    const Threads threads(count);
    for (const Index bad : {0, 17, 99}) {
      const auto run = [&] {
        threads.parallel_for(100, 1, [&](Index begin, Index) {
          if (begin == bad) throw std::out_of_range("piece");
        });
      };
      EXPECT_THROW(run(), std::out_of_range);
    }
    EXPECT_EQ(cuts(threads, 9, 3).size(), 3u) << "the pool still works";
  }
}

TEST(Threads, NestedLoopsFinish) {
  const Threads threads(3);
  std::atomic<int> calls = 0;
  threads.parallel_for(8, 1, [&](Index, Index) {
    threads.parallel_for(16, 1, [&](Index, Index, int slot) {
      EXPECT_LT(slot, threads.count());
      ++calls;
    });
  });
  EXPECT_EQ(calls, 128);
}

TEST(Threads, RunOnTheUsersPool) {
  Eigen::ThreadPool pool(2);
  const Threads threads(pool);
  EXPECT_EQ(threads.count(), 3);
  EXPECT_EQ(cuts(threads, 1000, 7), cuts(Threads(), 1000, 7));
  Eigen::Barrier finished(1);
  bool ran = false;
  pool.Schedule([&] {  // from inside the pool, all its threads may be busy
    threads.parallel_for(5, 1, [&](Index, Index) { ran = true; });
    finished.Notify();
  });
  finished.Wait();
  EXPECT_TRUE(ran);
}

TEST(Threads, ServeSeveralCallersAtOnce) {
  const Threads threads(3), copy = threads;
  std::atomic<int> calls = 0;
  const auto work = [&calls](const Threads& on) {
    for (int round = 0; round < 100; ++round) on.parallel_for(20, 1, [&](Index, Index) { ++calls; });
  };
  std::thread other([&] { work(copy); });
  work(threads);
  other.join();
  EXPECT_EQ(calls, 4000);
}
