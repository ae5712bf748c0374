#include <eigenformer/pretrained/pretrained.hpp>
#include <eigenformer/pretrained/pretrained.hpp>  // NOLINT
