#include <eigenformer/pretrained/bart.hpp>
#include <eigenformer/pretrained/bart.hpp>  // NOLINT
