#include <eigenformer/core/open_file.hpp>
#include <eigenformer/core/open_file.hpp>  // NOLINT
