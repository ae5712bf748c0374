#include <eigenformer/block/deep_norm.hpp>
#include <eigenformer/block/deep_norm.hpp>  // NOLINT
