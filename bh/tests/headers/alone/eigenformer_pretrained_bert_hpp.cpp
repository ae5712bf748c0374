#include <eigenformer/pretrained/bert.hpp>
#include <eigenformer/pretrained/bert.hpp>  // NOLINT
