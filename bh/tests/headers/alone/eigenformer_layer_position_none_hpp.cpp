#include <eigenformer/layer/position/none.hpp>
#include <eigenformer/layer/position/none.hpp>  // NOLINT
