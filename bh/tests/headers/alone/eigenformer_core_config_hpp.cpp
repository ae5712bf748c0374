#include <eigenformer/core/config.hpp>
#include <eigenformer/core/config.hpp>  // NOLINT
