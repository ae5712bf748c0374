#include <eigenformer/text/sentencepiece_tokenizer.hpp>
#include <eigenformer/text/sentencepiece_tokenizer.hpp>  // NOLINT
