#include <eigenformer/io/gguf_blocks.hpp>
#include <eigenformer/io/gguf_blocks.hpp>  // NOLINT
