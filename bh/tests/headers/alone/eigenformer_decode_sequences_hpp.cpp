#include <eigenformer/decode/sequences.hpp>
#include <eigenformer/decode/sequences.hpp>  // NOLINT
