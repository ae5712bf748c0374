#include <eigenformer/core/random.hpp>
#include <eigenformer/core/random.hpp>  // NOLINT
