#include <eigenformer/text/byte_pair_files.hpp>
#include <eigenformer/text/byte_pair_files.hpp>  // NOLINT
