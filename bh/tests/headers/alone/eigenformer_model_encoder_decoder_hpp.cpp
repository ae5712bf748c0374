#include <eigenformer/model/encoder_decoder.hpp>
#include <eigenformer/model/encoder_decoder.hpp>  // NOLINT
