// libtorch, its operators that write to a given tensor.
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include "peer.hpp"

namespace eigenformer::bench {
namespace {

/// The same memory; torch has no tensors of const elements.
template <class T, int Rank>
at::Tensor wrap(View<T, Rank> view) {
  return at::from_blob(const_cast<float*>(view.data()),
                       at::IntArrayRef(view.shape().extents, static_cast<std::size_t>(Rank)), at::kFloat);
}

template <class F>
Work work(F f) {
  return [f = std::move(f)]() mutable {
    const c10::InferenceMode no_gradients;
    f();
  };
}

Work linear(ConstView<float, 2> x, ConstView<float, 2> weight, View<float, 2> y) {
  if (x.rows() == 1)
    return work([x = wrap(x[0]), w = wrap(weight), y = wrap(y[0])]() mutable {
      at::mv_out(y, w, x);
    });  // mm is three times slower
  return work([x = wrap(x), w = wrap(weight).t(), y = wrap(y)]() mutable { at::mm_out(y, x, w); });
}

Work layer_norm(ConstView<float, 2> x, ConstView<float, 1> scale, ConstView<float, 1> shift, View<float, 2> y) {
  const auto width = x.width();
  return work([=, x = wrap(x), scale = wrap(scale), shift = wrap(shift), y = wrap(y), mean = at::empty({x.rows(), 1}),
               deviation = at::empty({x.rows(), 1})]() mutable {
    at::native_layer_norm_out(y, mean, deviation, x, {width}, scale, shift, 1e-5);
  });
}

Work softmax(ConstView<float, 2> x, View<float, 2> y) {
  return work([x = wrap(x), y = wrap(y)]() mutable { at::_softmax_out(y, x, 1, false); });
}

Work gelu(ConstView<float, 2> x, View<float, 2> y) {
  return work([x = wrap(x), y = wrap(y)]() mutable { at::gelu_out(y, x); });
}

const int registered = [] {
  peers().push_back({"libtorch", linear, layer_norm, softmax, gelu});
  return 0;
}();

}  // namespace
}  // namespace eigenformer::bench
