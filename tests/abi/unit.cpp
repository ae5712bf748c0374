// Compiled once for each instruction set, as UNIT.
#include "unit.hpp"

#include <algorithm>

#include "eigenformer/core/initialize.hpp"
#include "eigenformer/io/checkpoint.hpp"
#include "eigenformer/model/encoder_decoder.hpp"
#include "eigenformer/op/cross_entropy.hpp"
#include "eigenformer/op/weight.hpp"

namespace {

#define EIGENFORMER_TEXT_OF(name) #name
#define EIGENFORMER_TEXT(name) EIGENFORMER_TEXT_OF(name)

namespace ef = eigenformer;
using Model = ef::EncoderDecoder<>;

template <class Function>
const void* place_of(Function* function) {
  return reinterpret_cast<const void*>(function);
}

std::vector<const void*> functions() {
  return {place_of(&ef::require_memory), place_of(&ef::kernel::linear_forward<float>),
          place_of(&ef::op::check_linear<float, 3>), place_of(&ef::last_rows<float>), place_of(&ef::initialize<Model>)};
}

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

std::vector<float> values(const auto& x) { return {x.data(), x.data() + x.size()}; }

std::vector<float> logits_by(ef::Context& ctx, const Model& with) {
  return values(with(ctx, {.source = rows(source), .source_lengths = lengths, .target = rows(target)}));
}

std::vector<float> logits(int threads, bool packed) {
  ef::Context ctx{ef::Threads(threads)};
  Model with = model();
  if (packed) ef::pack(ctx, with);
  return logits_by(ctx, with);
}

std::vector<float> gradient() {
  const Model of = model();
  Model result = ef::zeros_like(of);
  ef::Context ctx{ef::Threads(2)};
  ef::Tape tape;
  ctx.tape = &tape;
  tape.watch(of, result);
  const auto y = of(ctx, {.source = rows(source), .source_lengths = lengths, .target = rows(target)});
  ef::backward(ctx, ef::op::cross_entropy(ctx, y, rows(next)).sum);
  std::vector<float> all;
  ef::walk(
      [&](const std::string& path, const ef::Leaf&, const auto& x) {
        // The bias of the keys has a gradient of rounding errors: softmax does not see it.
        if (path.find("key.bias") == std::string::npos) all.insert(all.end(), x.data(), x.data() + x.size());
      },
      result);
  return all;
}

void save(const std::string& path) { ef::save(path, model()); }

std::vector<float> logits_of(const std::string& path) {
  Model from = model();
  ef::walk([](const ef::Leaf&, auto& x) { std::fill_n(x.data(), x.size(), 0); }, from);
  ef::load(path, from);
  ef::Context ctx;
  return logits_by(ctx, from);
}

}  // namespace

extern const Unit UNIT{EIGENFORMER_TEXT(UNIT), functions, logits, gradient, save, logits_of};
