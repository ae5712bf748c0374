#include <eigenformer/core/eigen.hpp>
#include <eigenformer/core/eigen.hpp>  // NOLINT
