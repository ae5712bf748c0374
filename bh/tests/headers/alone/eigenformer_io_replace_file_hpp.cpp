#include <eigenformer/io/replace_file.hpp>
#include <eigenformer/io/replace_file.hpp>  // NOLINT
