#include <eigenformer/text/byte_alphabet.hpp>
#include <eigenformer/text/byte_alphabet.hpp>  // NOLINT
