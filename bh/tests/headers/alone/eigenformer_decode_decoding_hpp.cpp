#include <eigenformer/decode/decoding.hpp>
#include <eigenformer/decode/decoding.hpp>  // NOLINT
