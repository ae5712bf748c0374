// A field that is not there, by its name.
// error: (member named|field designator) .+lr
#include "eigenformer/train/trainer.hpp"
const eigenformer::TrainerConfig config{.lr = 1};
