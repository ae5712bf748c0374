// Everything, in one of two units of a program: one compiled in debug mode, one in release mode.
#include <cstddef>
#include <eigenformer/eigenformer.hpp>
#include <vector>

template <class... Types>
static std::vector<std::size_t> layout_of() {
  return {sizeof(Types)..., alignof(Types)...};
}

std::vector<std::size_t> UNIT() {
  using namespace eigenformer;
  return layout_of<Shape<3>, View<float, 3>, Tensor<float, 1>, Threads, Arena, Tape, Context, Linear<float>,
                   PaperTransformer>();
}
