#include <eigenformer/block/config.hpp>
#include <eigenformer/block/config.hpp>  // NOLINT
