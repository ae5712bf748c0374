#include <eigenformer/text/tokenizer.hpp>
#include <eigenformer/text/tokenizer.hpp>  // NOLINT
