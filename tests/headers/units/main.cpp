// Objects made by one unit are used and destroyed by the other. Small numbers, so every order of summation is exact.
#include <cstdio>

#include "unit.hpp"

namespace {

int failures = 0;

void expect(bool condition, const char* what) {
  if (condition) return;
  std::printf("failed: %s\n", what);
  ++failures;
}

void exchange(const Unit& maker, const Unit& user) {
  for (const eigenformer::Index size : {1, 5, 64, 131}) {
    eigenformer::Tensor<float, 2> x(eigenformer::Shape{3 * size, 2 * size});
    for (eigenformer::Index i = 0; i < x.size(); ++i) x.data()[i] = static_cast<float>(i % 5) - 2.0f;
    const auto layer = maker.layer(2 * size, size);
    const auto y = user.apply(maker.context(2), layer, x);
    bool equal = y.shape() == eigenformer::Shape{3 * size, size};
    for (eigenformer::Index i = 0; equal && i < x.extent(0); ++i)
      for (eigenformer::Index j = 0; j < size; ++j) {
        float sum = 0;
        for (eigenformer::Index k = 0; k < 2 * size; ++k) sum += x(i, k) * layer.weight(j, k);
        equal = equal && y(i, j) == sum;
      }
    expect(equal, "the right product from the other unit");
  }
}

}  // namespace

int main() {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
    std::puts("skipped: no AVX2 here");
    return 77;
  }
#endif
  expect(plain.layout() == wide.layout(), "the same layout in both units");
  exchange(plain, wide);
  exchange(wide, plain);
  return failures != 0;
}
