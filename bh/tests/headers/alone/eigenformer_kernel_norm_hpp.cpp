#include <eigenformer/kernel/norm.hpp>
#include <eigenformer/kernel/norm.hpp>  // NOLINT
