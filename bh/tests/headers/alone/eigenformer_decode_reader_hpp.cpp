#include <eigenformer/decode/reader.hpp>
#include <eigenformer/decode/reader.hpp>  // NOLINT
