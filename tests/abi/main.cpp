// Every unit makes, uses and destroys what the others made. In plain main(): compiled for the baseline.
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "unit.hpp"

namespace {

int failures = 0;

void expect(bool condition, const std::string& what) {
  if (condition) return;
  std::printf("failed: %s\n", what.c_str());
  ++failures;
}

/// Equal but for rounding: other instructions, other orders of summation.
bool close(const auto& a, const auto& b) {
  if (a.shape() != b.shape()) return false;
  float largest = 0, difference = 0;
  for (ef::Index i = 0; i < a.size(); ++i) {
    if (!std::isfinite(a.data()[i]) || !std::isfinite(b.data()[i])) return false;
    largest = std::fmax(largest, std::abs(a.data()[i]));
    difference = std::fmax(difference, std::abs(a.data()[i] - b.data()[i]));
  }
  return largest > 0 && difference <= 2e-5f * largest;
}

void exchange(const Unit& a, const Unit& b, const ef::Tensor<float, 3>& logits, const Model& slopes) {
  const std::string pair = std::string(" (") + a.name + ", " + b.name + ")";
  expect(a.layout() == b.layout(), "one layout" + pair);

  Model model = a.model();
  const auto ctx = a.context(2);
  expect(close(b.forward(*ctx, model), logits), "logits in the other's context" + pair);
  expect(close(a.forward(*ctx, model), logits), "logits in the same context" + pair);
  ctx->reset();

  const Model packed = b.packed(model);
  expect(close(a.forward(*ctx, packed), logits), "packed by the other" + pair);
  const auto& weight = packed.encoder.blocks[0].feed_forward.up.weight;
  expect(close(a.product(*ctx, weight), a.product(*ctx, model.encoder.blocks[0].feed_forward.up.weight)),
         "a product packed by the other" + pair);
  ctx->reset();

  Model copy = model;
  copy = b.model();
  Model gradient = b.gradient(std::move(copy));
  ef::walk(
      [&](const std::string& path, const ef::Leaf&, const auto& x, const auto& y) {
        // The bias of the keys has a gradient of rounding errors: softmax does not see it.
        if (path.find("key.bias") == std::string::npos) expect(close(x, y), path + pair);
      },
      gradient, slopes);
  model = std::move(gradient);

  const ef::Tensor<float, 2> x(ef::Shape<2>{3, 8});
  expect(b.halves(x).data() == x.data() + 4, "a view" + pair);
}

}  // namespace

int main() {
  std::vector<const Unit*> units{&baseline};
#ifdef HAVE_avx2
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) units.push_back(&avx2);
#endif
#ifdef HAVE_avx512
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("fma")) units.push_back(&avx512);
#endif
  const auto ctx = baseline.context(1);
  const auto logits = baseline.forward(*ctx, baseline.model());
  const Model slopes = baseline.gradient(baseline.model());
  for (const Unit* a : units)
    for (const Unit* b : units) exchange(*a, *b, logits, slopes);
  std::printf("%zu units, %d failures\n", units.size(), failures);
  return failures != 0;
}
