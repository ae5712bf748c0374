#include <eigenformer/text/byte_pair_tokenizer.hpp>
#include <eigenformer/text/byte_pair_tokenizer.hpp>  // NOLINT
