#include <eigenformer/core/settings.hpp>
#include <eigenformer/core/settings.hpp>  // NOLINT
