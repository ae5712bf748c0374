#include <eigenformer/kernel/positions.hpp>
#include <eigenformer/kernel/positions.hpp>  // NOLINT
