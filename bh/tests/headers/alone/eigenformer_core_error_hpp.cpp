#include <eigenformer/core/error.hpp>
#include <eigenformer/core/error.hpp>  // NOLINT
