#include <eigenformer/decode/generate.hpp>
#include <eigenformer/decode/generate.hpp>  // NOLINT
