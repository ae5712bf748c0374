#include <eigenformer/pretrained/gguf_families.hpp>
#include <eigenformer/pretrained/gguf_families.hpp>  // NOLINT
