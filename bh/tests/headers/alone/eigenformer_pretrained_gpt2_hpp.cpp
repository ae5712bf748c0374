#include <eigenformer/pretrained/gpt2.hpp>
#include <eigenformer/pretrained/gpt2.hpp>  // NOLINT
