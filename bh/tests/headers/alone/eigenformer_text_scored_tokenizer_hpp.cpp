#include <eigenformer/text/scored_tokenizer.hpp>
#include <eigenformer/text/scored_tokenizer.hpp>  // NOLINT
