#include <eigenformer/core/view.hpp>
#include <eigenformer/core/view.hpp>  // NOLINT
