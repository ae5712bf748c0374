// A field that is not there, by its name.
// error: (member named|field designator) .+lr
#include "eigenformer/layer/embedding.hpp"
#include "eigenformer/train/trainer.hpp"
const eigenformer::TrainerConfig<eigenformer::Embedding<float>> config{.lr = 1};
