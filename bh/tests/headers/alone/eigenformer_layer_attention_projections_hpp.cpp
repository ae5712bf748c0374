#include <eigenformer/layer/attention/projections.hpp>
#include <eigenformer/layer/attention/projections.hpp>  // NOLINT
