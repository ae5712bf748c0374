#include <eigenformer/layer/norm/scale_norm.hpp>
#include <eigenformer/layer/norm/scale_norm.hpp>  // NOLINT
