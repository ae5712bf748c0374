#include <eigenformer/kernel/dropout.hpp>
#include <eigenformer/kernel/dropout.hpp>  // NOLINT
