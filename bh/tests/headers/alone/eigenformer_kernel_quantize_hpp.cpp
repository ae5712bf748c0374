#include <eigenformer/kernel/quantize.hpp>
#include <eigenformer/kernel/quantize.hpp>  // NOLINT
