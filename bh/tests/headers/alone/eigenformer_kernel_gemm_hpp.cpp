#include <eigenformer/kernel/gemm.hpp>
#include <eigenformer/kernel/gemm.hpp>  // NOLINT
