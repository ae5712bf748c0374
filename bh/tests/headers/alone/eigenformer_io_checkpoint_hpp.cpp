#include <eigenformer/io/checkpoint.hpp>
#include <eigenformer/io/checkpoint.hpp>  // NOLINT
