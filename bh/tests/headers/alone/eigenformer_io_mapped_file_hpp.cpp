#include <eigenformer/io/mapped_file.hpp>
#include <eigenformer/io/mapped_file.hpp>  // NOLINT
