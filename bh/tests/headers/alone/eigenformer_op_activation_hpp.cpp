#include <eigenformer/op/activation.hpp>
#include <eigenformer/op/activation.hpp>  // NOLINT
