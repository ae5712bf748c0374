#include <eigenformer/decode/rules.hpp>
#include <eigenformer/decode/rules.hpp>  // NOLINT
