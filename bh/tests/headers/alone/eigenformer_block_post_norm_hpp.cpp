#include <eigenformer/block/post_norm.hpp>
#include <eigenformer/block/post_norm.hpp>  // NOLINT
