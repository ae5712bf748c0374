#include <eigenformer/kernel/simd.hpp>
#include <eigenformer/kernel/simd.hpp>  // NOLINT
