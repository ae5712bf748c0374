#include <eigenformer/core/visit.hpp>
#include <eigenformer/core/visit.hpp>  // NOLINT
