#include <eigenformer/train/trainer.hpp>
#include <eigenformer/train/trainer.hpp>  // NOLINT
