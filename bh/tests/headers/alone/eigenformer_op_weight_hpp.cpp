#include <eigenformer/op/weight.hpp>
#include <eigenformer/op/weight.hpp>  // NOLINT
