#include <eigenformer/kernel/softmax.hpp>
#include <eigenformer/kernel/softmax.hpp>  // NOLINT
