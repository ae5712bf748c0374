#include <eigenformer/core/tensor.hpp>
#include <eigenformer/core/tensor.hpp>  // NOLINT
