#include <eigenformer/model/decoder_state.hpp>
#include <eigenformer/model/decoder_state.hpp>  // NOLINT
