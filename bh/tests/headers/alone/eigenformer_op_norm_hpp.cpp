#include <eigenformer/op/norm.hpp>
#include <eigenformer/op/norm.hpp>  // NOLINT
