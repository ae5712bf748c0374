// One include, and a model that runs.
#include <cstdio>
#include <eigenformer/eigenformer.hpp>

int main() {
  eigenformer::PaperTransformer::Config config{
      .source_vocabulary = 5, .target_vocabulary = 5, .block = {.width = 8, .hidden = 16, .heads = 2}};
  config.encoder_layers = config.decoder_layers = 1;
  eigenformer::PaperTransformer model(config);
  eigenformer::initialize(model, 1);
  const eigenformer::Tensor<eigenformer::Id, 2> ids(eigenformer::Shape{1, 3});

  eigenformer::Context ctx;
  const auto logits = model(ctx, {.source = ids.view(), .target = ids.view()});  // (1, 3, 5)
  if (logits.size() != 15) return 1;
  std::printf("%d.%d.%d\n", eigenformer::version_major, eigenformer::version_minor, eigenformer::version_patch);
}
