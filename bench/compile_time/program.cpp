// A small but whole program: a model, a training step, and decoding.
#include <eigenformer/eigenformer.hpp>

int main() {
  using namespace eigenformer;
  PaperTransformer model({.source_vocabulary = 100,
                          .target_vocabulary = 100,
                          .encoder_layers = 1,
                          .decoder_layers = 1,
                          .block = {.width = 32, .hidden = 64, .heads = 4}});
  initialize(model, 1);
  Trainer trainer(std::move(model), {.learning_rate = ConstantRate{1e-3}});
  Tensor<Id, 2> source(Shape{2, 5}), target(Shape{2, 5}), expected(Shape{2, 5});
  trainer.accumulate([&](Context& ctx, const PaperTransformer& m) {
    return op::cross_entropy(ctx, m(ctx, {.source = source, .target = target}), expected, {.smoothing = 0.1});
  });
  const StepReport report = trainer.step();
  Context ctx;
  const auto results = generate(ctx, trainer.model, source, {}, {.max_tokens = 5, .bos = 1});
  return report.step == 1 && results.size() == 2 ? 0 : 1;
}
