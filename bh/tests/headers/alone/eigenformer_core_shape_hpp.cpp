#include <eigenformer/core/shape.hpp>
#include <eigenformer/core/shape.hpp>  // NOLINT
