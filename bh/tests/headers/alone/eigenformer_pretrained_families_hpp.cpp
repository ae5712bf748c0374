#include <eigenformer/pretrained/families.hpp>
#include <eigenformer/pretrained/families.hpp>  // NOLINT
