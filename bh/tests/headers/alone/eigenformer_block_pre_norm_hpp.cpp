#include <eigenformer/block/pre_norm.hpp>
#include <eigenformer/block/pre_norm.hpp>  // NOLINT
