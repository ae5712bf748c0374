#include <eigenformer/decode/sampler.hpp>
#include <eigenformer/decode/sampler.hpp>  // NOLINT
