#include <eigenformer/core/context.hpp>
#include <eigenformer/core/context.hpp>  // NOLINT
