#include <eigenformer/io/safetensors.hpp>
#include <eigenformer/io/safetensors.hpp>  // NOLINT
