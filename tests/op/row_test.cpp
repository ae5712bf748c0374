// Equal rows give equal bits, forward and backward, wherever they lie in memory and whichever thread gets them.
#include <functional>

#include "eigenformer/op/activation.hpp"
#include "eigenformer/op/linear.hpp"
#include "eigenformer/op/norm.hpp"
#include "eigenformer/op/softmax.hpp"
#include "support/tensors.hpp"

namespace eigenformer::test {
namespace {

/// (R, D) with all rows the same.
template <class T>
Tensor<T, 2> repeated(Index rows, Index width, std::uint64_t seed) {
  const auto row = random_tensor<T>(Shape{width}, seed);
  Tensor<T, 2> x(Shape{rows, width});
  for (Index i = 0; i < rows; ++i) std::copy_n(row.data(), width, x.view().row(i));
  return x;
}

template <class T>
void expect_equal_rows(const Tensor<T, 2>& x, Index width) {
  for (Index i = 1; i < x.extent(0); ++i)
    ASSERT_TRUE(identical(x.view()[i], x.view()[0])) << "row " << i << ", width " << width;
}

template <class T>
class Rows : public testing::Test {};
using Scalars = testing::Types<float, double>;
TYPED_TEST_SUITE(Rows, Scalars);

/// Widths that are not a multiple of a vector put rows at every alignment; 6000 rows of them are several pieces.
TYPED_TEST(Rows, DoNotDependOnTheirPlace) {
  using T = TypeParam;
  using Op = std::function<ConstView<T, 2>(Context&, ConstView<T, 2>)>;
  for (const Index width : {5, 12, 17, 33}) {
    const auto weight = random_tensor<T>(Shape{width}, 3), bias = random_tensor<T>(Shape{width}, 4);
    const auto matrix = random_tensor<T>(Shape{width, width}, 5);
    const Op ops[] = {[](Context& ctx, auto x) { return op::softmax(ctx, x); },
                      [](Context& ctx, auto x) { return op::log_softmax(ctx, x); },
                      [](Context& ctx, auto x) { return op::activate<Relu>(ctx, x); },
                      [&](Context& ctx, auto x) { return op::layer_norm(ctx, x, weight, bias, 1e-5); },
                      [&](Context& ctx, auto x) { return op::layer_norm(ctx, x, {}, {}, 1e-5); },
                      [&](Context& ctx, auto x) { return op::norm<NormKind::rms>(ctx, x, {weight}, 1e-5); },
                      [](Context& ctx, auto x) { return op::activate<Gelu>(ctx, x); },
                      [&](Context& ctx, auto x) { return op::linear(ctx, x, matrix, bias); }};
    const auto x = repeated<T>(6000, width, 1), dy = repeated<T>(6000, width, 2);
    for (const Op& op : ops) {
      Tape tape;
      Context ctx(Threads(3));
      ctx.tape = &tape;
      Tensor<T, 2> dx(x.shape());
      tape.watch(x.view(), dx.view());
      const auto y = op(ctx, x);
      backward(ctx, y, dy);
      expect_equal_rows(Tensor<T, 2>(y), width);
      expect_equal_rows(dx, width);
    }
  }
}

}  // namespace
}  // namespace eigenformer::test
