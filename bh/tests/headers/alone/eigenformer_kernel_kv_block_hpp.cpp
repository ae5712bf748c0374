#include <eigenformer/kernel/kv_block.hpp>
#include <eigenformer/kernel/kv_block.hpp>  // NOLINT
