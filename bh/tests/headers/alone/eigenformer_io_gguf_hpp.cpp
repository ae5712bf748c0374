#include <eigenformer/io/gguf.hpp>
#include <eigenformer/io/gguf.hpp>  // NOLINT
