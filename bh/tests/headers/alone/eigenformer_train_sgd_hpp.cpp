#include <eigenformer/train/sgd.hpp>
#include <eigenformer/train/sgd.hpp>  // NOLINT
