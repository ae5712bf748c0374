#include <eigenformer/model/stack.hpp>
#include <eigenformer/model/stack.hpp>  // NOLINT
