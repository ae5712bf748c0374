// Compiled once for each instruction set, as UNIT.
#include "unit.hpp"

#include <algorithm>

#include "eigenformer/core/initialize.hpp"
#include "eigenformer/op/cross_entropy.hpp"

namespace {

#define EIGENFORMER_TEXT_OF(name) #name
#define EIGENFORMER_TEXT(name) EIGENFORMER_TEXT_OF(name)

template <class... Types>
std::vector<std::size_t> layout_of() {
  return {sizeof(Types)..., alignof(Types)...};
}

std::vector<std::size_t> layout() {
  return layout_of<ef::Shape<3>, ef::View<float, 3>, ef::Tensor<float, 1>, ef::Tensor<double, 4>, ef::Threads,
                   ef::Arena, ef::Tape, ef::Context, ef::Mask, ef::Random, Model>();
}

std::unique_ptr<ef::Context> context(int threads) { return std::make_unique<ef::Context>(ef::Threads(threads)); }

Model model() {
  Model made({.source_vocabulary = 13,
              .target_vocabulary = 13,
              .encoder_layers = 2,
              .decoder_layers = 2,
              .block = {.width = 40, .hidden = 70, .heads = 4, .dropout = 0}});
  ef::initialize(made, 1);
  return made;
}

const std::vector<ef::Id> source{3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, target{1, 3, 4, 1, 5, 6}, next{3, 4, 2, 5, 6, 2};
const std::vector<ef::Index> lengths{5, 3};

ef::ConstView<ef::Id, 2> rows(const std::vector<ef::Id>& ids) {
  return {ids.data(), {2, static_cast<ef::Index>(ids.size()) / 2}};
}

ef::ConstView<float, 3> logits(ef::Context& ctx, const Model& with) {
  return with(ctx, {.source = rows(source), .source_lengths = lengths, .target = rows(target)});
}

ef::Tensor<float, 3> forward(ef::Context& ctx, const Model& with) { return ef::Tensor<float, 3>(logits(ctx, with)); }

Model packed(Model of) {
  ef::Context packing{ef::Threads(2)};
  ef::pack(packing, of);
  return of;
}

ef::Tensor<float, 2> product(ef::Context& ctx, const ef::Weight<float>& weight) {
  ef::Tensor<float, 2> x(ef::Shape<2>{2, weight.extent(1)}), y(ef::Shape<2>{2, weight.extent(0)});
  std::fill_n(x.data(), x.size(), 1.0f);
  const auto scratch = ctx.scratch();
  ef::kernel::linear_forward<float>(ctx.threads, ctx.arena, x.view(), weight.view(), ef::ConstView<float, 1>(),
                                    y.view(), weight.panels());
  return y;
}

Model gradient(Model of) {
  Model result = ef::zeros_like(of);
  ef::Context ctx{ef::Threads(2)};
  ef::Tape tape;
  ctx.tape = &tape;
  tape.watch(of, result);
  ef::backward(ctx, ef::op::cross_entropy(ctx, logits(ctx, of), rows(next)).sum);
  return result;
}

ef::ConstView<float, 2> halves(ef::ConstView<float, 2> x) { return x.slice(1, x.extent(1) / 2, x.extent(1) / 2); }

}  // namespace

extern const Unit UNIT{EIGENFORMER_TEXT(UNIT), layout, context, model, forward, packed, gradient, product, halves};
