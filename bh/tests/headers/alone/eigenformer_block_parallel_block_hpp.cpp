#include <eigenformer/block/parallel_block.hpp>
#include <eigenformer/block/parallel_block.hpp>  // NOLINT
