#include <eigenformer/kernel/online_softmax.hpp>
#include <eigenformer/kernel/online_softmax.hpp>  // NOLINT
