#include <eigenformer/model/decoders.hpp>
#include <eigenformer/model/decoders.hpp>  // NOLINT
