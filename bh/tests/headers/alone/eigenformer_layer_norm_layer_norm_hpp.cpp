#include <eigenformer/layer/norm/layer_norm.hpp>
#include <eigenformer/layer/norm/layer_norm.hpp>  // NOLINT
