#include <eigenformer/decode/processors.hpp>
#include <eigenformer/decode/processors.hpp>  // NOLINT
