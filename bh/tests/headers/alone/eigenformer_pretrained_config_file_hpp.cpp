#include <eigenformer/pretrained/config_file.hpp>
#include <eigenformer/pretrained/config_file.hpp>  // NOLINT
