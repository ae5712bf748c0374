#include <eigenformer/op/linear.hpp>
#include <eigenformer/op/linear.hpp>  // NOLINT
