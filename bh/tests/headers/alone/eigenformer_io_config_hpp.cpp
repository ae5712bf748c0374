#include <eigenformer/io/config.hpp>
#include <eigenformer/io/config.hpp>  // NOLINT
