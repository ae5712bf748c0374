// No kernel raises invalid, division by zero or overflow on valid data: programs may have them trapped.
#include "support/exceptions.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "eigenformer/kernel/activation.hpp"
#include "eigenformer/kernel/adam.hpp"
#include "eigenformer/kernel/attention.hpp"
#include "eigenformer/kernel/loss.hpp"
#include "eigenformer/kernel/norm.hpp"
#include "eigenformer/kernel/softmax.hpp"
#include "support/guarded.hpp"
#include "support/tolerance.hpp"

using namespace eigenformer;
using namespace eigenformer::test;

template <class T>
struct KernelExceptions : ::testing::Test {
  static constexpr T infinity = std::numeric_limits<T>::infinity();

  /// A row of each width, x everywhere.
  template <class F>
  static void for_rows_of(double x, F&& f) {
    for (const Index width : sizes) {
      SCOPED_TRACE("width " + std::to_string(width) + " of " + std::to_string(x));
      const Guarded<T, 2> in(Shape{2, width}), out(Shape{2, width}), dy(Shape{2, width}, {}, 1), dx(Shape{2, width});
      in.fill([=] { return x; });
      f(in, out, dy, dx);
    }
  }
};
using Scalars = ::testing::Types<float, double>;
TYPED_TEST_SUITE(KernelExceptions, Scalars);

TYPED_TEST(KernelExceptions, Activations) {
  using T = TypeParam;
  const auto check = [&]<class Activation>(const char* name, Activation) {
    SCOPED_TRACE(name);
    for (const double x : {0.0, 1e-30, 0.7, 5.0, 88.0, 1000.0, 3212.5, 1e20, std::numeric_limits<double>::infinity()})
      for (const double sign : {1.0, -1.0})
        this->for_rows_of(sign * x, [&](const auto& in, const auto& out, const auto& dy, const auto& dx) {
          EXPECT_EQ(raised([&] { kernel::activation_forward<Activation, T>({}, in, out); }), "");
          EXPECT_EQ(raised([&] { kernel::activation_backward<Activation, T>({}, in, dy, {dx, false}); }), "");
        });
  };
  check("relu", Relu());
  check("sigmoid", Sigmoid());
  check("tanh", Tanh());
  check("silu", Silu());
  check("gelu", Gelu());
  check("gelu_tanh", GeluTanh());
  check("gelu_sigmoid", GeluSigmoid());
}

// Without ε a row of zeros is 0/0: it stays 0, and so does its gradient.
TYPED_TEST(KernelExceptions, NormsOfZeros) {
  using T = TypeParam;
  const auto check = [&]<kernel::NormKind Kind>(std::integral_constant<kernel::NormKind, Kind>) {
    for (const double epsilon : {0.0, 1e-6})
      this->for_rows_of(0, [&](const auto& in, const auto& out, const auto& dy, const auto& dx) {
        const Index width = in.view().width();
        const Guarded<T, 1> weight(Shape{width}, {}, 2), dweight(Shape{width}), dbias(Shape{width});
        const Guarded<kernel::RowStatistics<T>, 1> statistics(Shape{2});
        const kernel::Affine<T> affine{.weight = weight};
        Arena arena;
        EXPECT_EQ(raised([&] {
                    kernel::norm_forward<Kind, T>({}, {in}, affine, epsilon, out, statistics);
                    kernel::norm_backward<Kind, T>({}, arena, in, affine, statistics, dy, {dx, false}, {dweight, false},
                                                   {dbias, false});
                  }),
                  "");
        for (Index i = 0; i < 2; ++i) {
          double mean = 0;
          for (Index j = 0; Kind == kernel::NormKind::layer && j < width; ++j)
            mean += static_cast<double>(dy(i, j) * weight(j)) / static_cast<double>(width);
          for (Index j = 0; j < width; ++j) {
            ASSERT_EQ(out(i, j), 0);
            ASSERT_EQ(dweight(j), 0);
            ASSERT_NEAR(static_cast<double>(dx(i, j)),
                        epsilon == 0 ? 0 : 1000 * (static_cast<double>(dy(i, j) * weight(j)) - mean), 1e-3)
                << "1/√ε = 1000";
          }
        }
      });
  };
  check(std::integral_constant<kernel::NormKind, kernel::NormKind::rms>());
  check(std::integral_constant<kernel::NormKind, kernel::NormKind::layer>());
}

TYPED_TEST(KernelExceptions, SoftmaxAndLossWithTokensRuledOut) {
  using T = TypeParam;
  for (const double usual : {-300.0, 5.0, 1e30})
    this->for_rows_of(-std::numeric_limits<double>::infinity(),
                      [&](const auto& in, const auto& out, const auto& dy, const auto& dx) {
                        in(0, 0) = in(1, 0) = static_cast<T>(usual);
                        Arena arena;
                        EXPECT_EQ(raised([&] {
                                    kernel::softmax_forward<T>({}, in, out);
                                    kernel::softmax_backward<T>({}, out, dy, {dx, false});
                                    kernel::log_softmax_forward<T>({}, in, out);
                                    kernel::log_softmax_backward<T>({}, out, dy, {dx, false});
                                  }),
                                  "");
                        const std::vector<Id> targets{0, -100};
                        const Guarded<kernel::SoftmaxSum<T>, 1> totals(Shape{2});
                        EXPECT_EQ(raised([&] {
                                    kernel::cross_entropy_forward<T>({}, arena, in, targets, -100, 0, totals);
                                    kernel::cross_entropy_backward<T>({}, in, targets, -100, 0, totals, 1, {dx, false});
                                  }),
                                  "");
                      });
}

// A weight that never had a gradient, with and without ε.
TYPED_TEST(KernelExceptions, AdamWithoutGradients) {
  using T = TypeParam;
  for (const Index count : sizes)
    for (const double epsilon : {0.0, 1e-8}) {
      const Guarded<T, 1> w(Shape{count}), g(Shape{count}), m(Shape{count}), v(Shape{count});
      w.fill([] { return 1; });
      for (const auto* x : {&g, &m, &v}) x->fill([] { return 0; });
      const kernel::AdamStep step{.beta1 = 0.9,
                                  .beta2 = 0.999,
                                  .epsilon = epsilon,
                                  .learning_rate = 0.1,
                                  .decay = 0,
                                  .gradient_scale = 1,
                                  .correction1 = 0.1,
                                  .correction2 = 0.001};
      EXPECT_EQ(raised([&] {
                  kernel::adam_step<T>({}, step, count, w.view().data(), g.view().data(), m.view().data(),
                                       v.view().data());
                }),
                "");
      for (Index i = 0; i < count; ++i) ASSERT_EQ(w(i), 1);
    }
}

// Rows that see nothing, by a mask and by a length; hidden keys; dropout; sinks; scores far apart.
TYPED_TEST(KernelExceptions, Attention) {
  using T = TypeParam;
  constexpr Index queries = 7, keys = 600, heads = 2, width = 5;
  Tensor<bool, 2> allowed(Shape{queries, keys});
  for (Index i = 1; i < queries; ++i)
    for (Index j = 0; j < keys; ++j) allowed(i, j) = i == 2 ? j == 3 : (i + j) % 3 == 0;
  const std::vector<Index> lengths{keys, 0}, few{5, queries};
  Random random{1};
  for (const Mask& mask : {Mask{}, Mask{.causal = true, .window = 3},
                           Mask{.key_lengths = lengths, .query_lengths = few}, Mask{.allowed = allowed.view()}})
    for (const double size : {1.0, 1e6}) {
      const Guarded<T, 4> q(Shape{Index{2}, queries, heads, width}, {}, 1),
          k(Shape{Index{2}, keys, heads, width}, {}, 2), v(Shape{Index{2}, keys, heads, width}, {}, 3),
          out(q.view().shape()), dout(q.view().shape(), {}, 4), dq(q.view().shape()), dk(k.view().shape()),
          dv(k.view().shape());
      const Guarded<kernel::AttentionRow<T>, 3> rows(Shape{Index{2}, heads, queries});
      const Guarded<T, 1> sinks(Shape{heads}), dsinks(Shape{heads});
      sinks(0) = -this->infinity, sinks(1) = T(0.5);
      Arena arena;
      for (const bool more : {false, true}) {
        kernel::AttentionInputs<T> in{q, k, v, static_cast<T>(size), mask};
        if (more) in.sinks = sinks, in.dropout = {RandomSite(random), 0.1};
        EXPECT_EQ(raised([&] {
                    kernel::attention_forward<T>({}, arena, in, out, rows);
                    kernel::attention_backward<T>({}, arena, in, out, rows, dout, {dq, false}, {dk, false}, {dv, false},
                                                  {}, {more ? dsinks.view() : View<T, 1>(), false});
                  }),
                  "")
            << size << more << mask.causal << mask.key_lengths.size() << mask.allowed.view.size();
      }
    }
}
