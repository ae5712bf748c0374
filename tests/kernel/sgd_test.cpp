#include "eigenformer/kernel/sgd.hpp"

#include <gtest/gtest.h>

#include <cstdint>

#include "support/guarded.hpp"
#include "support/oracle.hpp"
#include "support/tolerance.hpp"

namespace eigenformer::test {
namespace {

template <class T>
struct SgdKernel : ::testing::Test {};
using SgdScalars = ::testing::Types<float, double>;
TYPED_TEST_SUITE(SgdKernel, SgdScalars);

TYPED_TEST(SgdKernel, FollowsALoopInDouble) {
  using T = TypeParam;
  constexpr double momentum = 0.9, rate = 0.01, decay = 0.1, scale = 0.5;
  for (const Index count : {0, 1, 3, 15, 16, 17, 21, 130, 16383, 16384, 16385, 40000})
    for (const bool nesterov : {false, true}) {
      SCOPED_TRACE(count);
      const Shape<1> shape{count};
      const Guarded<T, 1> weight(shape, {}, 1), gradient(shape), velocity(shape);
      velocity.fill([] { return 0; });
      oracle::Expected<1> w(shape), v(shape);
      w.values = weight.values();
      w.magnitude = v.magnitude = 3;
      for (int step = 1; step <= 3; ++step) {
        gradient.fill([numbers = Numbers(static_cast<std::uint32_t>(step))]() mutable { return numbers(); });
        kernel::sgd_step<T>({},
                            {.momentum = momentum,
                             .nesterov = nesterov,
                             .learning_rate = rate,
                             .decay = decay,
                             .gradient_scale = scale},
                            count, weight.view().data(), gradient.view().data(), velocity.view().data());
        for (Index i = 0; i < count; ++i) {
          const double g = scale * static_cast<double>(gradient(i)) + decay * w.values(i);
          v.values(i) = momentum * v.values(i) + g;
          w.values(i) -= rate * (nesterov ? g + momentum * v.values(i) : v.values(i));
        }
        expect_close(weight, w, Tolerance<T>::elementwise);
        expect_close(velocity, v, Tolerance<T>::elementwise);
      }
    }
}

}  // namespace
}  // namespace eigenformer::test
