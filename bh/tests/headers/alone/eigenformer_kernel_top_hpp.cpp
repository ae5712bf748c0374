#include <eigenformer/kernel/top.hpp>
#include <eigenformer/kernel/top.hpp>  // NOLINT
