// peers [THREADS]: our kernels beside other libraries', on one or so many threads. Within a repetition every contender
// has a turn, so that all meet the same clocks and neighbours; printed are medians over the repetitions.
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "../support/machine.hpp"
#include "eigenformer/core/arena.hpp"
#include "eigenformer/kernel/activation.hpp"
#include "eigenformer/kernel/gemm.hpp"
#include "eigenformer/kernel/norm.hpp"
#include "eigenformer/kernel/softmax.hpp"
#include "peer.hpp"

namespace eigenformer::bench {
namespace {

constexpr int repetitions = 15;
constexpr double turn = 0.02;  // seconds

/// Calls f until so many seconds are over, once at least; seconds per call.
double repeat(double seconds, const Work& f) {
  const auto start = std::chrono::steady_clock::now();
  for (int calls = 1;; ++calls) {
    f();
    const double passed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (passed >= seconds) return passed / calls;
  }
}

/// Which CPUs this thread may use.
cpu_set_t allowed() {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  sched_getaffinity(0, sizeof cpus, &cpus);
  return cpus;
}

/// While it lives, every thread of this process stays on one CPU: the caller on the first that it may use (taskset says
/// which), the workers of each pool on the next ones. Otherwise a system may keep a pool that has just been woken on
/// one core.
class Pinned {
 public:
  explicit Pinned(int threads) {
    if (threads == 1) return;
    std::vector<int> cpus;
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(static_cast<std::size_t>(cpu), &before_)) cpus.push_back(cpu);
    std::vector<pid_t> tasks;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task"))
      tasks.push_back(std::stoi(entry.path().filename().string()));
    std::sort(tasks.begin(), tasks.end());  // so pool after pool
    std::size_t workers = 0;
    for (const pid_t task : tasks) {
      const std::size_t which = task == getpid() ? 0 : 1 + workers++ % static_cast<std::size_t>(threads - 1);
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(static_cast<std::size_t>(cpus[which % cpus.size()]), &one);
      sched_setaffinity(task, sizeof one, &one);
    }
  }
  ~Pinned() { sched_setaffinity(0, sizeof before_, &before_); }  // what the caller starts later is free again
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;

 private:
  cpu_set_t before_ = allowed();
};

struct Contender {
  std::string name;
  Work work;
  Tensor<float, 2> y;
  std::vector<double> rates{};
};

/// Our own first; each writes to its own result, and all must find the same.
class Comparison {
 public:
  Comparison(Shape<2> result, int threads) : result_(result), threads_(threads) {}

  void add(const std::string& name, auto&& prepare) {
    Tensor<float, 2> y(result_);
    const View<float, 2> view = y.view();
    contenders_.push_back({name, prepare(view), std::move(y)});
  }

  /// amount: of FLOPs or bytes in a call; limit(): so many a second this machine can do.
  void run(const std::string& title, double amount, const char* unit, const char* of_limit, auto&& limit) {
    const double settle = threads_ > 1 ? 0.05 : 0;  // before each turn: the last one's threads wait for work, spinning
    for (const Contender& c : contenders_) c.work();  // starts its threads
    std::vector<double> limits;
    for (int repetition = 0; repetition < repetitions; ++repetition) {
      double most = 0;
      repeat(settle, [&] { most = (std::max)(most, limit()); });
      limits.push_back(most);
      const Pinned pinned(threads_);
      for (std::size_t i = 0; i < contenders_.size(); ++i) {
        Contender& next = contenders_[(i + static_cast<std::size_t>(repetition)) % contenders_.size()];
        repeat(settle, next.work);
        next.rates.push_back(amount / repeat(turn, next.work));
      }
    }
    std::printf("%s\n", title.c_str());
    const Contender& ours = contenders_.front();
    for (const Contender& c : contenders_) {
      const double rate = median(c.rates);
      std::printf("  %-12s %8.1f %s %6.2f of %s", c.name.c_str(), rate * 1e-9, unit, rate / median(limits), of_limit);
      if (&c != &ours) {
        std::vector<double> ratios;
        for (std::size_t i = 0; i < c.rates.size(); ++i) ratios.push_back(ours.rates[i] / c.rates[i]);
        std::printf("   ours/peer %5.2f", median(std::move(ratios)));
        if (const double error = distance(c.y, ours.y); !(error < 1e-3)) std::printf("   RESULTS DIFFER by %g", error);
      }
      std::printf("\n");
    }
    std::fflush(stdout);
  }

 private:
  /// The largest difference, relative to the largest element.
  static double distance(const Tensor<float, 2>& a, const Tensor<float, 2>& b) {
    const auto x = a.view().matrix(), y = b.view().matrix();
    return static_cast<double>((x - y).cwiseAbs().maxCoeff() / y.cwiseAbs().maxCoeff());
  }

  Shape<2> result_;
  int threads_;
  std::vector<Contender> contenders_;
};

void compare_linear(Index in, Index out, Index rows, int threads) {
  const Threads pool(threads);
  Arena arena;
  const auto x = normal(Shape{rows, in}), weight = normal(Shape{out, in}, 2);
  const auto w = kernel::pack(pool, kernel::Operand<float>::transposed(weight),
                              arena.allocate<float>(kernel::Operand<float>::size(in, out)));
  Comparison comparison(Shape{rows, out}, threads);
  comparison.add("ours",
                 [&](auto y) -> Work { return [&, y] { kernel::linear_forward<float>(pool, arena, x, w, {}, y); }; });
  for (const Peer& peer : peers())
    if (peer.linear) comparison.add(peer.name, [&](auto y) { return peer.linear(x, weight, y); });
  const std::string title = "linear " + std::to_string(in) + "x" + std::to_string(out) + ", " + std::to_string(rows) +
                            (rows > 1 ? " rows" : " row");
  const auto elements = static_cast<double>(in * out);
  if (rows > 1)
    comparison.run(title, 2 * elements * static_cast<double>(rows), "GFLOP/s", "peak",
                   [&] { return peak_flops(threads); });
  else
    comparison.run(title, elements * sizeof(float), "GB/s", "read bandwidth", [&] { return read_bandwidth(threads); });
}

/// ours() computes; theirs(peer, y) is the peer's work, or none.
void compare_pass(const std::string& name, Shape<2> shape, int threads, auto&& ours, auto&& theirs) {
  Comparison comparison(shape, threads);
  comparison.add("ours", ours);
  for (const Peer& peer : peers())
    if (theirs(peer)) comparison.add(peer.name, theirs(peer));
  comparison.run(name + " " + std::to_string(shape[0]) + "x" + std::to_string(shape[1]),
                 2.0 * static_cast<double>(shape.size()) * sizeof(float), "GB/s", "copy bandwidth",
                 [&] { return copy_bandwidth(shape.size(), threads); });
}

void compare_passes(int threads) {
  using Prepare = std::function<Work(View<float, 2>)>;
  constexpr Shape<2> shape{4096, 512};
  const Threads pool(threads);
  const auto x = normal(shape);
  const auto scale = normal(Shape{shape[1]}, 2), shift = normal(Shape{shape[1]}, 3);
  Tensor<kernel::RowStatistics<float>, 1> statistics(Shape{shape[0]});
  compare_pass(
      "layer norm", shape, threads,
      [&](auto y) -> Work {
        return [&, y] {
          kernel::norm_forward<kernel::NormKind::layer, float>(pool, {x}, {scale, shift}, 1e-5, y, statistics);
        };
      },
      [&](const Peer& p) -> Prepare {
        return p.layer_norm ? [&](auto y) { return p.layer_norm(x, scale, shift, y); } : Prepare();
      });
  compare_pass(
      "softmax", shape, threads, [&](auto y) -> Work { return [&, y] { kernel::softmax_forward<float>(pool, x, y); }; },
      [&](const Peer& p) -> Prepare { return p.softmax ? [&](auto y) { return p.softmax(x, y); } : Prepare(); });
  compare_pass(
      "gelu", shape, threads,
      [&](auto y) -> Work { return [&, y] { kernel::activation_forward<Gelu, float>(pool, x, y); }; },
      [&](const Peer& p) -> Prepare { return p.gelu ? [&](auto y) { return p.gelu(x, y); } : Prepare(); });
}

/// Seconds that OpenBLAS takes in this process; none if it is not compared.
std::optional<double> openblas_seconds() {
  for (const Peer& peer : peers())
    if (peer.name == "OpenBLAS") {
      const auto x = normal(Shape{256, 512}), weight = normal(Shape{2048, 512});
      Tensor<float, 2> y(Shape{256, 2048});
      return median_time(20, peer.linear(x, weight, y));
    }
  return {};
}

constexpr const char* self = "/proc/self/exe";

/// The same in a process of its own with the environment as it is now; none also if this machine lacks the
/// instructions.
std::optional<double> openblas_seconds_anew(const std::string& threads) {
  int ends[2];
  if (pipe(ends) != 0) return {};
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    execl(self, self, threads.c_str(), "openblas", nullptr);
    _exit(1);
  }
  close(ends[1]);
  double seconds = 0;
  const bool answered = child > 0 && read(ends[0], &seconds, sizeof seconds) == sizeof seconds;
  close(ends[0]);
  if (child > 0) waitpid(child, nullptr, 0);
  return answered ? std::optional(seconds) : std::nullopt;
}

/// Starts this program anew with the environment in which the others read how many threads to use, and OpenBLAS which
/// kernels: its own choice, or the caller's, is not always its fastest on a machine.
void restart(const std::string& threads) {
  for (const char* name : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"}) setenv(name, threads.c_str(), 1);
#if defined(__x86_64__)
  constexpr const char* core = "OPENBLAS_CORETYPE";
  const char* const given = std::getenv(core);
  std::string best = given ? given : "";
  std::optional<double> least = openblas_seconds_anew(threads);
  const bool compared = least.has_value();
  for (const char* name : {"Haswell", "Zen", "SkylakeX"}) {
    if (!compared) break;
    setenv(core, name, 1);
    if (const auto seconds = openblas_seconds_anew(threads); seconds && *seconds < *least) least = seconds, best = name;
  }
  if (best.empty()) unsetenv(core);
  else setenv(core, best.c_str(), 1);
  if (compared)
    std::printf("OpenBLAS runs its fastest kernels here: %s\n", best.empty() ? "its own choice" : best.c_str());
#endif
  std::fflush(stdout);
  execl(self, self, threads.c_str(), "compare", nullptr);
  std::perror(self);
}

void compare(int threads) {
  for (const auto& [in, out] : {std::pair<Index, Index>{512, 512}, {512, 2048}, {2048, 512}, {1024, 4096}})
    for (const Index rows : {64, 256, 1024}) compare_linear(in, out, rows, threads);
  compare_linear(4096, 16384, 1, threads);
  compare_passes(threads);
}

}  // namespace
}  // namespace eigenformer::bench

int main(int argc, char** argv) {
  using namespace eigenformer::bench;
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  if (threads < 1 || threads > 1024) return std::fprintf(stderr, "usage: %s [THREADS]\n", argv[0]), 2;
  const std::string mode = argc > 2 ? argv[2] : "";
  if (mode == "compare") return compare(threads), 0;
  if (mode == "openblas") {
    const auto seconds = openblas_seconds();
    return seconds && write(STDOUT_FILENO, &*seconds, sizeof *seconds) == sizeof *seconds ? 0 : 1;
  }
  restart(std::to_string(threads));
  return 1;
}
