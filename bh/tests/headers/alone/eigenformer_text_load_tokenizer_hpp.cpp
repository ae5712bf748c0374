#include <eigenformer/text/load_tokenizer.hpp>
#include <eigenformer/text/load_tokenizer.hpp>  // NOLINT
