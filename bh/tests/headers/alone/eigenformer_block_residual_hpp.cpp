#include <eigenformer/block/residual.hpp>
#include <eigenformer/block/residual.hpp>  // NOLINT
