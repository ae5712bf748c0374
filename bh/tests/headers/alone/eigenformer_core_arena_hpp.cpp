#include <eigenformer/core/arena.hpp>
#include <eigenformer/core/arena.hpp>  // NOLINT
