#include <eigenformer/block/gated_residual.hpp>
#include <eigenformer/block/gated_residual.hpp>  // NOLINT
