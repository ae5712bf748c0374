#include <eigenformer/core/language.hpp>
#include <eigenformer/core/language.hpp>  // NOLINT
