#include <eigenformer/text/json_value.hpp>
#include <eigenformer/text/json_value.hpp>  // NOLINT
