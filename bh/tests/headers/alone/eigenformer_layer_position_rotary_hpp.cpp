#include <eigenformer/layer/position/rotary.hpp>
#include <eigenformer/layer/position/rotary.hpp>  // NOLINT
