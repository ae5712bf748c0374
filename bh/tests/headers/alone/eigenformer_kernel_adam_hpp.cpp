#include <eigenformer/kernel/adam.hpp>
#include <eigenformer/kernel/adam.hpp>  // NOLINT
