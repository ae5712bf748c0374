#include <eigenformer/text/tokenizer_settings.hpp>
#include <eigenformer/text/tokenizer_settings.hpp>  // NOLINT
