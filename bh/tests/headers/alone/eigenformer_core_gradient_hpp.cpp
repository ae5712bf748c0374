#include <eigenformer/core/gradient.hpp>
#include <eigenformer/core/gradient.hpp>  // NOLINT
