#include <eigenformer/kernel/mask.hpp>
#include <eigenformer/kernel/mask.hpp>  // NOLINT
