#include <eigenformer/model/next_tokens.hpp>
#include <eigenformer/model/next_tokens.hpp>  // NOLINT
