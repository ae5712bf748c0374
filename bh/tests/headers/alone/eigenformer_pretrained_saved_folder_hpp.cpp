#include <eigenformer/pretrained/saved_folder.hpp>
#include <eigenformer/pretrained/saved_folder.hpp>  // NOLINT
