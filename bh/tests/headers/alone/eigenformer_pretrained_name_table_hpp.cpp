#include <eigenformer/pretrained/name_table.hpp>
#include <eigenformer/pretrained/name_table.hpp>  // NOLINT
