#include <eigenformer/block/sandwich.hpp>
#include <eigenformer/block/sandwich.hpp>  // NOLINT
