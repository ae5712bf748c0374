#include <eigenformer/layer/linear.hpp>
#include <eigenformer/layer/linear.hpp>  // NOLINT
