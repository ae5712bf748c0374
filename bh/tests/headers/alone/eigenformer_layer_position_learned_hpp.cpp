#include <eigenformer/layer/position/learned.hpp>
#include <eigenformer/layer/position/learned.hpp>  // NOLINT
