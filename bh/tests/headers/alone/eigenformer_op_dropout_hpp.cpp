#include <eigenformer/op/dropout.hpp>
#include <eigenformer/op/dropout.hpp>  // NOLINT
