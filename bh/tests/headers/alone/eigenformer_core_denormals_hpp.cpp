#include <eigenformer/core/denormals.hpp>
#include <eigenformer/core/denormals.hpp>  // NOLINT
