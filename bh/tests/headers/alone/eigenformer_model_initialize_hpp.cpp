#include <eigenformer/model/initialize.hpp>
#include <eigenformer/model/initialize.hpp>  // NOLINT
