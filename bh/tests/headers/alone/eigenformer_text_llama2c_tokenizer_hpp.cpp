#include <eigenformer/text/llama2c_tokenizer.hpp>
#include <eigenformer/text/llama2c_tokenizer.hpp>  // NOLINT
