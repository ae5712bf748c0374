#include <eigenformer/layer/norm/dynamic_tanh.hpp>
#include <eigenformer/layer/norm/dynamic_tanh.hpp>  // NOLINT
