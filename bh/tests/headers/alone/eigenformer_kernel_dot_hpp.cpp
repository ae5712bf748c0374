#include <eigenformer/kernel/dot.hpp>
#include <eigenformer/kernel/dot.hpp>  // NOLINT
