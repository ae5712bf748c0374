#include <eigenformer/core/scalar.hpp>
#include <eigenformer/core/scalar.hpp>  // NOLINT
