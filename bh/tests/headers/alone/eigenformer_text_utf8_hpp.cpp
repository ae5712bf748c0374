#include <eigenformer/text/utf8.hpp>
#include <eigenformer/text/utf8.hpp>  // NOLINT
