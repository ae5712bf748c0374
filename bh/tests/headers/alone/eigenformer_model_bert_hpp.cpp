#include <eigenformer/model/bert.hpp>
#include <eigenformer/model/bert.hpp>  // NOLINT
