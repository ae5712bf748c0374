#include <eigenformer/kernel/affine.hpp>
#include <eigenformer/kernel/affine.hpp>  // NOLINT
