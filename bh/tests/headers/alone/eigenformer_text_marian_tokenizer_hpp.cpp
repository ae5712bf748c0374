#include <eigenformer/text/marian_tokenizer.hpp>
#include <eigenformer/text/marian_tokenizer.hpp>  // NOLINT
