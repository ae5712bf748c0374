#include <eigenformer/io/safetensors_header.hpp>
#include <eigenformer/io/safetensors_header.hpp>  // NOLINT
