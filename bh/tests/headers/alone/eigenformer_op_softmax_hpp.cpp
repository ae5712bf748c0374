#include <eigenformer/op/softmax.hpp>
#include <eigenformer/op/softmax.hpp>  // NOLINT
