#include <eigenformer/text/gguf_tokenizer.hpp>
#include <eigenformer/text/gguf_tokenizer.hpp>  // NOLINT
