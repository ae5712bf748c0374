#include <eigenformer/kernel/rotary.hpp>
#include <eigenformer/kernel/rotary.hpp>  // NOLINT
