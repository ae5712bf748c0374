#include <eigenformer/text/merge.hpp>
#include <eigenformer/text/merge.hpp>  // NOLINT
