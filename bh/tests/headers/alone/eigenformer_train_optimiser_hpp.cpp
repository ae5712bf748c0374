#include <eigenformer/train/optimiser.hpp>
#include <eigenformer/train/optimiser.hpp>  // NOLINT
