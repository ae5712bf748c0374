#include <eigenformer/pretrained/llama.hpp>
#include <eigenformer/pretrained/llama.hpp>  // NOLINT
