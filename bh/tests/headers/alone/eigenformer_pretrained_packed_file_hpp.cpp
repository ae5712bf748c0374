#include <eigenformer/pretrained/packed_file.hpp>
#include <eigenformer/pretrained/packed_file.hpp>  // NOLINT
