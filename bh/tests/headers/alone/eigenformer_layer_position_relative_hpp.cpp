#include <eigenformer/layer/position/relative.hpp>
#include <eigenformer/layer/position/relative.hpp>  // NOLINT
