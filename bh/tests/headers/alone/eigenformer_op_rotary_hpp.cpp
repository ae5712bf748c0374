#include <eigenformer/op/rotary.hpp>
#include <eigenformer/op/rotary.hpp>  // NOLINT
