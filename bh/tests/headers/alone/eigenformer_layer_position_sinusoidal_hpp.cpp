#include <eigenformer/layer/position/sinusoidal.hpp>
#include <eigenformer/layer/position/sinusoidal.hpp>  // NOLINT
