#include <eigenformer/op/pool.hpp>
#include <eigenformer/op/pool.hpp>  // NOLINT
