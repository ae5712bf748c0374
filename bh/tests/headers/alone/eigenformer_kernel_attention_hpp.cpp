#include <eigenformer/kernel/attention.hpp>
#include <eigenformer/kernel/attention.hpp>  // NOLINT
