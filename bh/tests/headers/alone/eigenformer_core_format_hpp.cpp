#include <eigenformer/core/format.hpp>
#include <eigenformer/core/format.hpp>  // NOLINT
