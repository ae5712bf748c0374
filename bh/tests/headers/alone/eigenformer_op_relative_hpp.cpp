#include <eigenformer/op/relative.hpp>
#include <eigenformer/op/relative.hpp>  // NOLINT
