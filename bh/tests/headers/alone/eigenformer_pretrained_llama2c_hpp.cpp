#include <eigenformer/pretrained/llama2c.hpp>
#include <eigenformer/pretrained/llama2c.hpp>  // NOLINT
