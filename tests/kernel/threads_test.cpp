// The same bits on any number of threads, for every kernel, with enough work for many pieces.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "eigenformer/kernel/activation.hpp"
#include "eigenformer/kernel/adam.hpp"
#include "eigenformer/kernel/attention.hpp"
#include "eigenformer/kernel/dropout.hpp"
#include "eigenformer/kernel/embedding.hpp"
#include "eigenformer/kernel/gemm.hpp"
#include "eigenformer/kernel/loss.hpp"
#include "eigenformer/kernel/norm.hpp"
#include "eigenformer/kernel/sinusoid.hpp"
#include "eigenformer/kernel/softmax.hpp"
#include "support/guarded.hpp"

using namespace eigenformer;
using test::Numbers;

namespace {

template <int Rank>
Tensor<float, Rank> random(Shape<Rank> shape, std::uint32_t seed) {
  Tensor<float, Rank> x(shape);
  Numbers numbers(seed);
  for (Index i = 0; i < x.size(); ++i) x.data()[i] = static_cast<float>(numbers());
  return x;
}

/// compute(threads, arena, results…) fills the tensors the same way on 1, 2 and 3 threads.
template <class... Results>
void expect_same_bits(auto&& compute, const Results&... shaped_like) {
  const auto run = [&](int count, Results... results) {
    Arena arena;
    compute(Threads(count), arena, results...);
    std::vector<float> all;
    (all.insert(all.end(), results.data(), results.data() + results.size()), ...);
    return all;
  };
  const auto serial = run(1, shaped_like...);
  double sum = 0;
  for (const float x : serial) sum += static_cast<double>(x) * static_cast<double>(x);
  EXPECT_GT(sum, 0) << "something was computed";
  for (const int count : {2, 3}) {
    const auto parallel = run(count, shaped_like...);
    EXPECT_EQ(std::memcmp(serial.data(), parallel.data(), serial.size() * sizeof(float)), 0) << count << " threads";
  }
}

constexpr Index rows = 700, width = 130;
const Shape<2> shape{rows, width};

}  // namespace

TEST(KernelThreads, Linear) {
  const auto x = random(shape, 1), w = random(Shape{Index{90}, width}, 2), dy = random(Shape{rows, Index{90}}, 3);
  const auto b = random(Shape{90}, 4);
  expect_same_bits(
      [&](const Threads& threads, Arena& arena, auto& y, auto& dx, auto& dw, auto& db) {
        kernel::linear_forward<float>(threads, arena, x, kernel::Operand<float>::transposed(w), b, y);
        kernel::linear_backward_input<float>(threads, arena, dy, w, {dx, false});
        kernel::linear_backward_weight<float>(threads, arena, dy, x, {dw, false}, {db, false});
      },
      dy, x, w, b);
}

TEST(KernelThreads, LayerNorm) {
  const auto x = random(shape, 1), dy = random(shape, 2);
  const auto w = random(Shape{width}, 3);
  expect_same_bits(
      [&](const Threads& threads, Arena& arena, auto& y, auto& dx, auto& dw, auto& db) {
        const auto statistics = arena.allocate<kernel::RowStatistics<float>>(Shape{rows});
        kernel::norm_forward<kernel::NormKind::layer, float>(threads, {x}, {w, w}, 1e-5, y, statistics);
        kernel::norm_backward<kernel::NormKind::layer, float>(threads, arena, x, {w}, statistics, dy, {dx, false},
                                                              {dw, false}, {db, false});
      },
      x, x, w, w);
}

TEST(KernelThreads, SoftmaxAndLoss) {
  const auto x = random(shape, 1), dy = random(shape, 2);
  std::vector<Id> targets(rows);
  for (std::size_t i = 0; i < rows; ++i) targets[i] = static_cast<Id>(i % width);
  expect_same_bits(
      [&](const Threads& threads, Arena& arena, auto& y, auto& dx, auto& log_y, auto& log_dx, auto& dlogits,
          auto& loss) {
        kernel::softmax_forward<float>(threads, x, y);
        kernel::softmax_backward<float>(threads, y, dy, {dx, false});
        kernel::log_softmax_forward<float>(threads, x, log_y);
        kernel::log_softmax_backward<float>(threads, log_y, dy, {log_dx, false});
        const auto totals = arena.allocate<kernel::SoftmaxSum<float>>(Shape{rows});
        const double sum = kernel::cross_entropy_forward<float>(threads, arena, x, targets, -100, 0.1, totals);
        loss(0) = static_cast<float>(sum), loss(1) = static_cast<float>(sum - static_cast<double>(loss(0)));
        kernel::cross_entropy_backward<float>(threads, x, targets, -100, 0.1, totals, 1, {dlogits, false});
      },
      x, x, x, x, x, Tensor<float, 1>(Shape{2}));
}

TEST(KernelThreads, Attention) {
  const Shape<4> query_shape{2, 70, 4, 20}, key_shape{2, 90, 2, 20};
  const auto query = random(query_shape, 1), key = random(key_shape, 2), value = random(key_shape, 3),
             dy = random(query_shape, 4);
  Random source{.seed = 5};
  const kernel::AttentionInputs<float> in{query, key, value, 0.2f, {.causal = true}, {RandomSite(source), 0.1}};
  expect_same_bits(
      [&](const Threads& threads, Arena& arena, auto& y, auto& dquery, auto& dkey, auto& dvalue) {
        const auto sums = arena.allocate<kernel::AttentionRow<float>>(Shape{2, 4, 70});
        kernel::attention_forward<float>(threads, arena, in, y, sums);
        kernel::attention_backward<float>(threads, arena, in, y, sums, dy, {dquery, false}, {dkey, false},
                                          {dvalue, false});
      },
      query, query, key, key);
}

TEST(KernelThreads, RowByRow) {
  const auto x = random(shape, 1), residual = random(shape, 2), table = random(Shape{Index{50}, width}, 3);
  std::vector<Id> ids(rows);
  for (std::size_t i = 0; i < rows; ++i) ids[i] = static_cast<Id>(i * i % 50);
  Random source{.seed = 5};
  const kernel::Dropout dropout{RandomSite(source), 0.3};
  expect_same_bits(
      [&](const Threads& threads, Arena&, auto& dropped, auto& dx, auto& active, auto& dactive, auto& found,
          auto& dtable, auto& positions) {
        kernel::dropout_forward<float>(threads, x, residual, dropout, dropped);
        kernel::dropout_backward<float>(threads, x, dropout, {dx, false});
        kernel::activation_forward<Relu, float>(threads, x, active);
        kernel::activation_backward<Relu, float>(threads, x, residual, {dactive, false});
        kernel::embedding_forward<float>(threads, ids, kernel::Operand<float>::transposed(table), 2.0f, found);
        kernel::embedding_backward<float>(threads, ids, x, 2.0f, {dtable, false});
        kernel::sinusoid_forward<float>(threads, x.view().reshape(Shape{Index{2}, rows / 2, width}), {.first = 3},
                                        10000, positions);
      },
      x, x, x, x, x, table, Tensor<float, 3>(Shape{Index{2}, rows / 2, width}));
}

TEST(KernelThreads, Adam) {
  const auto gradient = random(Shape{100000}, 1), start = random(Shape{100000}, 2);
  const kernel::AdamStep step{.beta1 = 0.9,
                              .beta2 = 0.98,
                              .epsilon = 1e-9,
                              .learning_rate = 0.01,
                              .decay = 0.1,
                              .gradient_scale = 0.5,
                              .correction1 = 0.1,
                              .correction2 = 0.02};
  expect_same_bits(
      [&](const Threads& threads, Arena& arena, auto& weight, auto& first, auto& second, auto& norm) {
        kernel::adam_step<float>(threads, step, weight.size(), weight.data(), gradient.data(), first.data(),
                                 second.data());
        const double squares = kernel::squared_norm<float>(threads, arena, weight.size(), weight.data());
        norm(0) = static_cast<float>(squares), norm(1) = static_cast<float>(squares - static_cast<double>(norm(0)));
      },
      start, Tensor<float, 1>(Shape{100000}), Tensor<float, 1>(Shape{100000}), Tensor<float, 1>(Shape{2}));
}
