#include <eigenformer/text/split.hpp>
#include <eigenformer/text/split.hpp>  // NOLINT
