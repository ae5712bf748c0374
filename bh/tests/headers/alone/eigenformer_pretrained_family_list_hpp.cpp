#include <eigenformer/pretrained/family_list.hpp>
#include <eigenformer/pretrained/family_list.hpp>  // NOLINT
