#include <eigenformer/pretrained/checkpoint_files.hpp>
#include <eigenformer/pretrained/checkpoint_files.hpp>  // NOLINT
