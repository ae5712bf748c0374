#include <eigenformer/op/affine.hpp>
#include <eigenformer/op/affine.hpp>  // NOLINT
