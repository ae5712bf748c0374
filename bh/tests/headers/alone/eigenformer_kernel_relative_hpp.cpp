#include <eigenformer/kernel/relative.hpp>
#include <eigenformer/kernel/relative.hpp>  // NOLINT
