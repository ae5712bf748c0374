#include <eigenformer/eigenformer.hpp>
#include <eigenformer/eigenformer.hpp>  // NOLINT
