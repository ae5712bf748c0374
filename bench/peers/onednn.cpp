// oneDNN 2 or 3, with the weight in whatever layout it likes best.
#include <dnnl.hpp>
#include <memory>
#include <unordered_map>

#include "peer.hpp"

namespace eigenformer::bench {
namespace {

using dnnl::memory;
using dnnl::prop_kind;
using Arguments = std::unordered_map<int, memory>;

const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}
dnnl::stream& stream() {
  static dnnl::stream in_order(engine());
  return in_order;
}

memory::desc matrix(Index rows, Index columns, memory::format_tag tag = memory::format_tag::ab) {
  return {{rows, columns}, memory::data_type::f32, tag};
}

constexpr auto inference = prop_kind::forward_inference;
const auto affine = dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift;

#if DNNL_VERSION_MAJOR >= 3
using Softmax = dnnl::softmax_forward;
template <class Primitive>
typename Primitive::primitive_desc describe(const auto&... what) {
  return {engine(), what...};
}
auto describe_layer_norm(const memory::desc& shape) {
  return describe<dnnl::layer_normalization_forward>(inference, shape, shape, 1e-5F, affine);
}
auto describe_gelu(const memory::desc& shape) {
  return describe<dnnl::eltwise_forward>(inference, dnnl::algorithm::eltwise_gelu_erf, shape, shape);
}
#else
using Softmax = dnnl::softmax_v2_forward;
template <class Primitive>
typename Primitive::primitive_desc describe(const auto&... what) {
  return {typename Primitive::desc(what...), engine()};
}
auto describe_layer_norm(const memory::desc& shape) {
  return describe<dnnl::layer_normalization_forward>(inference, shape, 1e-5F, affine);
}
auto describe_gelu(const memory::desc& shape) {
  return describe<dnnl::eltwise_forward>(inference, dnnl::algorithm::eltwise_gelu_erf, shape);
}
#endif

/// oneDNN wants pointers to what may change, whether it changes or not.
memory wrap(const memory::desc& desc, const float* data) { return {desc, engine(), const_cast<float*>(data)}; }

Work work(dnnl::primitive primitive, Arguments arguments) {
  return [primitive = std::move(primitive), arguments = std::move(arguments)] {
    primitive.execute(stream(), arguments);
    stream().wait();
  };
}

Work linear(ConstView<float, 2> x, ConstView<float, 2> weight, View<float, 2> y) {
  const Index in = x.width(), out = y.width();
  const auto from = matrix(x.rows(), in), to = matrix(y.rows(), out), plain = matrix(in, out, memory::format_tag::ba);
  const auto product = describe<dnnl::matmul>(from, matrix(in, out, memory::format_tag::any), to);
  auto given = wrap(plain, weight.data());
  memory best(product.weights_desc(), engine());
  dnnl::reorder(given, best).execute(stream(), given, best);
  stream().wait();
  return work(dnnl::matmul(product),
              {{DNNL_ARG_SRC, wrap(from, x.data())}, {DNNL_ARG_WEIGHTS, best}, {DNNL_ARG_DST, wrap(to, y.data())}});
}

Work layer_norm(ConstView<float, 2> x, ConstView<float, 1> scale, ConstView<float, 1> shift, View<float, 2> y) {
  const auto shape = matrix(x.rows(), x.width());
  const memory::desc vector({x.width()}, memory::data_type::f32, memory::format_tag::a);
  return work(dnnl::layer_normalization_forward(describe_layer_norm(shape)),
              {{DNNL_ARG_SRC, wrap(shape, x.data())},
               {DNNL_ARG_SCALE, wrap(vector, scale.data())},
               {DNNL_ARG_SHIFT, wrap(vector, shift.data())},
               {DNNL_ARG_DST, wrap(shape, y.data())}});
}

Work pass(dnnl::primitive primitive, ConstView<float, 2> x, View<float, 2> y) {
  const auto shape = matrix(x.rows(), x.width());
  return work(std::move(primitive), {{DNNL_ARG_SRC, wrap(shape, x.data())}, {DNNL_ARG_DST, wrap(shape, y.data())}});
}

Work softmax(ConstView<float, 2> x, View<float, 2> y) {
  const auto shape = matrix(x.rows(), x.width());
  return pass(Softmax(describe<Softmax>(inference, dnnl::algorithm::softmax_accurate, shape, shape, 1)), x, y);
}

Work gelu(ConstView<float, 2> x, View<float, 2> y) {
  return pass(dnnl::eltwise_forward(describe_gelu(matrix(x.rows(), x.width()))), x, y);
}

const int registered = [] {
  peers().push_back({"oneDNN", linear, layer_norm, softmax, gelu});
  return 0;
}();

}  // namespace
}  // namespace eigenformer::bench
