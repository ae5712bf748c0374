#include <eigenformer/decode/beam.hpp>
#include <eigenformer/decode/beam.hpp>  // NOLINT
