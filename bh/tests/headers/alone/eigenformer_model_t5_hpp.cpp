#include <eigenformer/model/t5.hpp>
#include <eigenformer/model/t5.hpp>  // NOLINT
