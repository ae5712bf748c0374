#include <eigenformer/core/half.hpp>
#include <eigenformer/core/half.hpp>  // NOLINT
