#include <eigenformer/block/decoder_block.hpp>
#include <eigenformer/block/decoder_block.hpp>  // NOLINT
