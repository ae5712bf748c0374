#include <eigenformer/pretrained/t5.hpp>
#include <eigenformer/pretrained/t5.hpp>  // NOLINT
