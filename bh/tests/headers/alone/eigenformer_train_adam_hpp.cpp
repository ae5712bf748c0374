#include <eigenformer/train/adam.hpp>
#include <eigenformer/train/adam.hpp>  // NOLINT
