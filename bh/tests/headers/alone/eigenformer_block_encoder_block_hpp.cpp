#include <eigenformer/block/encoder_block.hpp>
#include <eigenformer/block/encoder_block.hpp>  // NOLINT
