#include <eigenformer/op/cross_entropy.hpp>
#include <eigenformer/op/cross_entropy.hpp>  // NOLINT
