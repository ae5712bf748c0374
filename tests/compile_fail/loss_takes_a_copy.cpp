// error: the loss takes the model as const Model&
#include <eigenformer/model/decoders.hpp>
#include <eigenformer/train/trainer.hpp>

using namespace eigenformer;

void accumulate(Trainer<Gpt2<float>>& trainer, const Tensor<Id, 2>& ids) {
  trainer.accumulate(
      [&](Context& ctx, Gpt2<float> model) { return op::cross_entropy(ctx, model(ctx, {.ids = ids}), ids); });
}
