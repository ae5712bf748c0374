#include <eigenformer/decode/draft.hpp>
#include <eigenformer/decode/draft.hpp>  // NOLINT
