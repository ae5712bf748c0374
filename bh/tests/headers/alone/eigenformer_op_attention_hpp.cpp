#include <eigenformer/op/attention.hpp>
#include <eigenformer/op/attention.hpp>  // NOLINT
