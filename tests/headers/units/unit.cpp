// Compiled twice: as `plain` for the baseline in debug mode, as `wide` for AVX2 in release mode.
#include "unit.hpp"

using namespace eigenformer;

namespace {

template <class... Types>
std::vector<std::size_t> layout_of() {
  return {sizeof(Types)..., alignof(Types)...};
}

std::vector<std::size_t> layout() {
  return layout_of<Shape<3>, View<float, 3>, Tensor<float, 1>, Tensor<double, 4>, Threads, Arena, Context, Tape, Linear<float>,
                   PaperTransformer>();
}

std::unique_ptr<Context> context(int threads) { return std::make_unique<Context>(Threads(threads)); }

Linear<float> layer(Index in, Index out) {
  Linear<float> result({in, out});
  for (Index i = 0; i < result.weight.size(); ++i) result.weight.data()[i] = static_cast<float>(i % 7) - 3.0f;
  return result;
}

Tensor<float, 2> apply(std::unique_ptr<Context> ctx, Linear<float> linear, const Tensor<float, 2>& x) {
  return Tensor<float, 2>(linear(*ctx, x.view()));
}

}  // namespace

extern const Unit UNIT{layout, context, layer, apply};
