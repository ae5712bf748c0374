#include <eigenformer/pretrained/gguf.hpp>
#include <eigenformer/pretrained/gguf.hpp>  // NOLINT
