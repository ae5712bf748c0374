#include <eigenformer/version.hpp>
#include <eigenformer/version.hpp>  // NOLINT
