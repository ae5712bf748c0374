#include <eigenformer/train/clip.hpp>
#include <eigenformer/train/clip.hpp>  // NOLINT
