#include <eigenformer/core/initialize.hpp>
#include <eigenformer/core/initialize.hpp>  // NOLINT
