#include <eigenformer/decode/score.hpp>
#include <eigenformer/decode/score.hpp>  // NOLINT
