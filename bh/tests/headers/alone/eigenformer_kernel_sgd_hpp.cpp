#include <eigenformer/kernel/sgd.hpp>
#include <eigenformer/kernel/sgd.hpp>  // NOLINT
