#include <eigenformer/kernel/activation.hpp>
#include <eigenformer/kernel/activation.hpp>  // NOLINT
